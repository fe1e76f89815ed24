// One mount that a user asks for by --container-mounts.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace berth::plan {

/// What mounts made later on one side do on the other: with `slave` those of the node appear in the container.
enum class Propagation { isolated, slave, shared, unbindable };

/// What to make when the target is missing; automatic: as the source is.
enum class CreateTarget { automatic, directory, file, none };

/// One mount as the user wrote it. Sources and targets are not resolved yet.
struct MountRequest {
    /// squashfs: what is in the squashfs file `source`, read-only
    enum class Kind { bind, tmpfs, umount, squashfs };
    Kind kind = Kind::bind;
    /// host path for bind and squashfs ("/...", "./..." from the job's working directory or "~/..." from the home),
    /// empty otherwise
    std::string source;
    std::string target;  ///< absolute path in the container
    bool read_only = false;
    bool no_exec = false;
    bool optional = false;  ///< `nofail`: a source that is missing is no error
    bool recursive = true;  ///< false with the flag `bind`
    std::optional<Propagation> propagation;  ///< unset: as the site says
    CreateTarget create = CreateTarget::automatic;
    /// of a tmpfs: size, mode, nr_inodes, huge, as the kernel takes them
    std::vector<std::pair<std::string, std::string>> options;
    bool operator==(const MountRequest&) const = default;
};

}  // namespace berth::plan
