// The TOML library with its assertions turned into an exception; for the files of this folder that read the site file.
#pragma once

namespace berth::plan {

/// toml++ 3.3 has assertions that a malformed file can break, as `[=` does.
struct BrokenAssertion {};
[[noreturn]] inline void refuse_assertion() {
    throw BrokenAssertion();
}

}  // namespace berth::plan

#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : berth::plan::refuse_assertion())
#include <toml++/toml.h>

#include <string>

#include "runtime/base/text.hh"

namespace berth::plan {

/// Where a TOML node stands, for messages: "FILE:LINE:COLUMN"; of what is no text of a file, as the value of a
/// variable, `name` alone.
inline std::string place(const std::string& name, const toml::source_region& at) {
    if (at.begin.line == 0) return name;
    return cat(name, ":", at.begin.line, ":", at.begin.column);
}

}  // namespace berth::plan
