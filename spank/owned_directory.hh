// Directories that root makes for somebody: how they come to their owner without a way for anybody to redirect root.
#pragma once
#include <fcntl.h>
#include <sys/types.h>

#include <string>

#include "runtime/base/fd.hh"

namespace berth::spank {

struct Owner {
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

/// The flags by which all directories here are opened: no symlink as the last component.
constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// The directory `name` of `parent`. It may be another file system: for names that only root can mount on. An empty Fd
/// and errno where it cannot be opened.
Fd open_any(int parent, const std::string& name);

/// The same of `parent`'s own file system alone, following no symlink. What a user mounts over a folder of their own
/// could let root wait there for ever: it is EXDEV.
Fd open_own(int parent, const std::string& name);

/// Whether `parent` itself has something called `name`, of whatever type; what is mounted there does not count. Follows
/// no symlink and never waits for a user's file system.
bool has_own(int parent, const std::string& name);

/// The directory `name` in `parent`, made when it is missing, opened by `open`. It is given to its owner only through
/// its descriptor and only while it is still root's own empty one. Throws Error, which calls it `shown`, when it is
/// there and is another owner's, of another mode or no directory; then it is left alone.
Fd owned_directory(int parent, const std::string& name, const std::string& shown, const Owner& wanted,
                   Fd (*open)(int, const std::string&) = open_own);

}  // namespace berth::spank
