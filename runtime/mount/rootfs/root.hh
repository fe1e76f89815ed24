// The container's root file system: a writable overlay over the served image, and the ways to name, make and protect
// things inside it.
#pragma once
#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::mount {

/// Mounts a tmpfs (`size` bytes, 0: half of memory) over a directory that every node has, with the directories lower,
/// upper, work, disk and root in it. It hides that directory, so sources of mounts are taken before. The result is the
/// tmpfs's root. Throws Error.
Fd make_staging(uint64_t size);

/// The directory `name` of the staging area, O_PATH.
Fd staging_directory(int staging, const std::string& name);

/// Lays an overlay that nobody can write to over `folder`/lower and attaches it at `folder`/root; makes the directories
/// root and empty there. Changes the working directory. Throws Error.
void make_read_only_overlay(int folder, bool small_inode_numbers);

/// Whether what is looked up must be there already or is made.
enum class Missing { fails, directory, file };

/// Where something new may be put. What the image names or redirects stays on the container's own file systems; what a
/// user names in an option may be made in a directory of the node that was mounted, as long as no symlink led there.
enum class Where { own, named };

struct OverlayOptions {
    std::string source = "berth";  ///< its name in the mount table
    /// What is written goes to the directories upper and work of the folder mounted at staging/disk, not to memory.
    bool on_disk = false;
    std::string disk_path, setting;  ///< of that folder, for messages: where it is, and which keys say so
    /// The image's files keep inode numbers that 32-bit programs can take. They then have another device number than
    /// its directories.
    bool small_inode_numbers = false;
    /// Directories of the staging area that lie over the image, the topmost first.
    std::vector<std::string> layers = {};
};

/// A container's root that is not yet the root of the process.
class Root {
  public:
    /// Lays the overlay over staging/lower, and what lies above that, and attaches it at staging/root. Changes the
    /// working directory. Throws Error; when it is the file system of the folder on disk that cannot hold what an
    /// overlay writes, that is what the error says.
    static Root make_overlay(int staging, const OverlayOptions& options = {});

    /// Attaches the root of another container, a mount that is attached nowhere, at staging/root. Throws Error.
    static Root attach(int staging, Fd root);

    /// Any directory as a root, whose own file system counts as the container's.
    explicit Root(Fd directory);

    int fd() const { return directory_.get(); }

    /// The object at `path` inside (O_PATH), all symlinks followed as the container sees them. What is missing is made
    /// as `missing` says, parents too (mode 0755), where `where` allows it.
    Fd open(const std::string& path, Missing missing, Where where = Where::own, mode_t mode = 0755) const;

    /// A place for a name: its directory (made when missing) and the name in it, symlinks in both followed, the last
    /// one only with `follow_last`.
    struct Place {
        std::shared_ptr<const Fd> parent;  ///< O_PATH
        std::string name;         ///< empty: the root itself
        bool own = false;         ///< the directory is on a file system of the container
        bool redirected = false;  ///< a symlink was followed on the way
    };
    Place place(const std::string& path, bool follow_last, Where where = Where::own) const;

    /// The same for a path whose directories are all there, with no symlink among them; nothing for any other.
    std::optional<Place> plain_place(const std::string& path) const;

    /// Throws Error when nothing new may be put at `place`, found by looking up `path`.
    static void check_may_create(const Place& place, const std::string& path, Where where = Where::own);

    /// From now on the file system of the mount `fd` counts as the container's own.
    void adopt(int fd);

    /// True when `fd` is on a file system of the container.
    bool owns(int fd) const;

    /// To be called when something was mounted on a directory, or unmounted: what was looked up is looked up anew.
    void forget_places() const { last_ = {}; }

    /// True when what has this `st` is the root directory itself.
    bool is_root(const struct stat& st) const { return st.st_dev == device_ && st.st_ino == inode_; }

    /// No writes to the root file system from here on; mounts on it are not affected.
    void make_read_only() const;

  private:
    Fd directory_;
    dev_t device_;
    ino_t inode_;
    std::set<dev_t> own_;  ///< file systems that live and die with the container

    /// The directory of the container's own that was looked up last: many a mount goes to the same one, device nodes
    /// and libraries do.
    struct Last {
        std::string path;
        std::shared_ptr<const Fd> directory;
    };
    mutable Last last_;
};

}  // namespace berth::mount
