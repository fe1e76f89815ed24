// Mounts as Enroot writes them: the fields of a line of fstab. Pure.
#pragma once
#include <string>
#include <string_view>

namespace berth::enroot {

/// SRC[:DST[:TYPE][:OPTION,...]] of `enroot start --mount` as a value of --container-mounts. Throws Error.
std::string mount_of_words(std::string_view text);

/// A line of fstab, with blanks between its fields, the same way. Empty for a comment or an empty line. Throws Error.
std::string mount_of_line(std::string_view line);

}  // namespace berth::enroot
