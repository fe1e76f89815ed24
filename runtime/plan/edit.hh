// One change of a container, as a plain value.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/request/mount_request.hh"
#include "runtime/request/origin.hh"

namespace berth::plan {

/// A mount made in the container. Mounts are always nosuid; nodev but for devices.
struct Mount {
    /// proc, devpts, cgroup: a file system of this type that shows the container's own processes, terminals, cgroups.
    /// mask: something empty that cannot be written to, over a file or directory of the kernel's.
    /// squashfs: what is in the file `source`, by the container's file server.
    enum class Kind { bind, tmpfs, proc, devpts, cgroup, mask, squashfs };
    using Create = CreateTarget;
    Kind kind = Kind::bind;
    std::string source;  ///< absolute host path (bind, squashfs); the type of a new file system
    std::string target;  ///< absolute container path
    bool read_only = false;
    bool no_exec = false;
    bool recursive = true;
    bool device = false;    ///< a device node or a file system of them: devices work
    /// a bind: nodes work as on the node where the source is one, or lies in the node's /dev; when none of them may be
    /// opened, that is an error
    bool keeps_devices = false;
    bool optional = false;  ///< a source that has gone is no error
    bool inside = false;    ///< a bind: the source is a path of the container's own files, and none of the host
    /// a directory (bind) or squashfs: it lies over the image's files and below what is written; `target` is "/"
    bool layer = false;
    uint64_t size = 0;      ///< tmpfs: bytes, 0 for the kernel's default
    uint32_t mode = 0755;   ///< tmpfs: of its root directory
    Propagation propagation = Propagation::isolated;
    /// tmpfs: of the user's, before which `mode` and `size` give way
    std::vector<std::pair<std::string, std::string>> options;
    Create create = Create::automatic;
    /// Whether it takes something of the node that a path names.
    bool has_source() const { return (kind == Kind::bind && !inside) || kind == Kind::squashfs; }
};

/// Undoes a mount made earlier in the plan.
struct Unmount {
    std::string target;
};

/// A symlink. What exists stays, unless `replace` is set and it is no directory.
struct Symlink {
    std::string path;
    std::string target;
    bool replace = false;
};

/// A directory, made when missing.
struct Directory {
    std::string path;
    uint32_t mode = 0755;
    bool skeleton = false;  ///< when it is made: with a copy of the image's /etc/skel
};

/// A line of /etc/passwd or /etc/group: replaces the lines whose `key_field` (counted from 0, between colons) equals
/// that of `line`, else is added at the end. A missing file is made.
struct AccountLine {
    std::string path;
    std::string line;
    int key_field = 2;
    bool keeps = false;  ///< replaces no line, and makes no file
};

/// A small file for a program that may be in the image: made when its folder is there and the file is not.
struct DropIn {
    std::string path;
    std::string content;
};

/// A library as the loader finds it.
struct CachedLibrary {
    int32_t flags = 0;  ///< kind and architecture, see loader_flags() of host/loader_cache
    std::string name;   ///< what a program asks for: "libcuda.so.1"
    std::string path;   ///< absolute
    uint32_t osversion = 0;
    uint64_t hwcap = 0;
    bool operator==(const CachedLibrary&) const = default;
};

/// Libraries that the dynamic loader is to find: added to /etc/ld.so.cache, where they take the place of those of the
/// same name. For a root file system with musl the folder is added to `musl_path` instead, which is then not empty.
struct LoaderLibraries {
    std::vector<CachedLibrary> libraries;
    std::string musl_path;  ///< "/etc/ld-musl-x86_64.path"
    std::string folder;     ///< of the libraries, for musl
};

using Action = std::variant<Mount, Unmount, Symlink, Directory, AccountLine, DropIn, LoaderLibraries>;

/// One change of the container, with who asked for it and why.
struct Edit {
    Action action;
    Origin origin;
    std::string reason;
};

}  // namespace berth::plan
