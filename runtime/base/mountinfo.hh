// The kernel's table of mounts, /proc/PID/mountinfo, see proc(5). Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth {

struct MountLine {
    std::string id;      ///< of the mount, a number
    std::string place;   ///< mount point, seen from the root directory of the process
    std::string type;    ///< of the file system: "overlay"
    std::string source;  ///< what was mounted, which for most types is any text
};

/// The lines of a table in their order. What is no line of one is left out.
std::vector<MountLine> parse_mountinfo(std::string_view text);

/// A field of such a line as it was before the kernel wrote blanks, line ends and the like as a backslash and three
/// octal digits.
std::string unescaped_field(std::string_view field);

}  // namespace berth
