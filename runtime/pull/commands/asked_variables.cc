#include "runtime/pull/commands/asked_variables.hh"

#include <unistd.h>

#include <iostream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::pull {

std::optional<std::string> AskedVariables::value(const std::string& name) try {
    std::lock_guard lock(mutex_);
    if (auto known = known_.find(name); known != known_.end()) return known->second;
    sys::write_all(STDOUT_FILENO, cat("variable ", name, "\n"), "the report");
    std::string answer;
    if (!std::getline(std::cin, answer) || !answer.starts_with('=')) return std::nullopt;
    return known_[name] = answer.substr(1);
} catch (const Error&) {
    return std::nullopt;
}

}  // namespace berth::pull
