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
