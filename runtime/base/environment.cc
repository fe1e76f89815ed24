#include "runtime/base/environment.hh"

#include <unistd.h>

namespace berth {

const char* variable(const std::vector<std::string>& environment, std::string_view name) {
    for (const std::string& text : environment)
        if (text.size() > name.size() && text[name.size()] == '=' && text.starts_with(name))
            return text.c_str() + name.size() + 1;
    return nullptr;
}

std::string value_in(const std::vector<std::string>& environment, std::string_view name) {
    const char* value = variable(environment, name);
    return value ? value : "";
}

std::vector<std::string> environment_of_this_process() {
    std::vector<std::string> out;
    // A program may have set it to null to say that there is none.
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) out.emplace_back(*entry);
    return out;
}

}  // namespace berth
