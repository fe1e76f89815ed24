// The files by which Enroot is told what every container gets: environ.d/*.env and mounts.d/*.fstab (Enroot 4.1.2,
// src/runtime.sh, src/common.sh and bin/enroot-mount.c). Pure.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/mount_request.hh"

namespace berth::enroot {

/// The value of a variable; empty when it is not set.
using VariableValue = std::function<std::string(const std::string& name)>;

/// `text` with ${NAME} replaced. Anything else that begins with $ stays, as in Enroot's envsubst.
std::string with_variables(std::string_view text, const VariableValue& value);

/// NAME=VALUE of each line that is one: no comment, no ENROOT_*, without quotes around the value. A line whose value is
/// nothing but variables that are not set is left out.
std::vector<std::string> variable_lines(std::string_view text, const VariableValue& value);

/// A line of a fstab.
struct FstabLine {
    unsigned number = 0;  ///< from 1
    plan::MountRequest mount;
    bool of_variable = false;  ///< a variable is in its source
    std::string left_out;      ///< why it is no mount here; empty: it is one
};

/// Comments, empty lines, and what every container has anyway (/proc, /sys, /dev, a fresh /tmp, /etc/hosts) are no
/// lines.
std::vector<FstabLine> mount_lines(std::string_view text, const VariableValue& value);

}  // namespace berth::enroot
