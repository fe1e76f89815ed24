// Grammar of --container-mounts: SRC[:DST[:FLAG+FLAG]][,...]. Pure; used on the submit side and by the helper.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace berth::plan {

/// One mount as the user wrote it. Sources and targets are not resolved yet.
struct MountRequest {
    enum class Kind { bind, tmpfs, umount };
    Kind kind = Kind::bind;
    std::string source;  ///< host path for bind ("/..." or "./..." relative to the job's working directory), empty otherwise
    std::string target;  ///< absolute path in the container
    bool read_only = false;
    bool no_exec = false;
    bool recursive = true;  ///< false with the flag `bind`
};

/// Parses the whole option value. `\:`, `\,` and `\\` stand for the characters themselves.
/// Flags: ro rw exec noexec nosuid nodev bind rbind private (nosuid and nodev hold always; private is the only propagation).
/// Throws Error with a caret under the mistake.
std::vector<MountRequest> parse_mounts(std::string_view text);

/// Why `target` can be no mount point ("/" and "/proc" ...), or an empty text. The path is compared by whole components after normalising.
std::string forbidden_target(std::string_view target);

/// `path` without ".", "..", doubled and trailing slashes; absolute ("/" at least).
std::string normalised(std::string_view path);

}  // namespace berth::plan
