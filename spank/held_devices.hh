// Which device files a process holds: what goes on in another job must hold none of the job that has ended.
#pragma once
#include <sys/types.h>

#include <cstddef>

namespace berth::spank {

/// True for what a process may keep when it goes to another job: files, folders, sockets, pipes, anonymous inodes,
/// terminals, /dev/fuse, and the devices of memory that everybody has (null, zero, full, random, urandom). Pure.
bool may_go_along(mode_t mode, dev_t device);

/// True when the process has anything else open or mapped, in whichever of its threads, or cannot be looked at. False
/// when it has ended. Looks at the kernel's links in /proc alone, walks no path and opens nothing, so that no file
/// system that has stopped can hold it up. `links` is how many links may still be looked at; without any left it is
/// true.
bool holds_devices(pid_t process, size_t& links);

}  // namespace berth::spank
