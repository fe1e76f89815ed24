// An option of a file system that is about to be mounted.
#pragma once
#include <string>

namespace berth::sys {

/// A flag has no value.
struct MountOption {
    std::string key;
    std::string value;
    bool is_flag = false;
};

}  // namespace berth::sys
