// Grammar of --container-mounts: SRC[:DST[:FLAG+FLAG]][,...]. Pure; used on the submit side and by the helper.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/request/mount_request.hh"

namespace berth::plan {

/// Parses the whole option value. `\:`, `\,` and `\\` stand for the characters themselves.
/// A source may begin with ~/, which is the home of whoever starts the container. A target that starts with a dot is
/// meant from the container's root. The flags are those of mount_flags.hh.
/// Throws Error with a caret under the mistake.
std::vector<MountRequest> parse_mounts(std::string_view text);

/// Why `target` can be no mount point ("/" and "/proc" ...), or an empty text. The path is compared by whole components
/// after normalising.
std::string forbidden_target(std::string_view target);

/// `path` without ".", "..", doubled and trailing slashes; absolute ("/" at least).
std::string normalised(std::string_view path);

}  // namespace berth::plan
