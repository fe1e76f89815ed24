// A directory of this machine as a layer: what a container wrote (the upper directory of its overlay), or a root file
// system.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "runtime/squash/write/writer.hh"

namespace berth::squash {

struct DirectoryOptions {
    /// The marks of an overlay mounted with `userxattr` (Linux, Documentation/filesystems/overlayfs.rst) become
    /// whiteouts of a layer: character devices 0:0, empty files with user.overlay.whiteout, and user.overlay.opaque.
    /// Else they mean nothing.
    bool overlay = false;
    /// what belongs to this user and group is the image's root's: in a container everything is the caller's
    uid_t uid = 0;
    gid_t gid = 0;
    /// Files of other users that this one may not read are left out, and of such directories what is in them.
    bool skips_unreadable = false;
};

/// What of a directory is not in the layer.
struct LeftOut {
    uint64_t devices = 0;
    uint64_t unreadable = 0;       ///< see DirectoryOptions
    std::string first_unreadable;  ///< a path from the root of the layer
};

/// Larger files are refused: they would take the writer hours, however sparse they are.
inline constexpr uint64_t largest_file = uint64_t{1} << 40;

/// Adds all that is below `directory`, which may change meanwhile: each file is what it was at some time, and what
/// vanishes is left out. Follows no symlink, opens nothing but files and directories, stays on their file system. Hard
/// links, holes, user.* attributes and times are kept; device nodes are left out. Throws
/// Error naming the object below `what`, also for what a layer cannot say: a name that starts with
/// ".wh.", a directory that was renamed in place (redirect_dir), a file without its data (metacopy).
LeftOut add_directory(LayerWriter& writer, int directory, const DirectoryOptions& options, const std::string& what);

}  // namespace berth::squash
