// System calls that a signal may interrupt.
#pragma once
#include <sys/types.h>

#include <cerrno>
#include <string>

#include "runtime/base/fd.hh"

namespace berth::sys {

/// Makes a system call again for as long as a signal interrupts it (EINTR): on network and FUSE file systems also those
/// that open, sync and truncate. Returns what it returns, with errno.
template <typename SystemCall>
auto uninterrupted(SystemCall&& call) {
    for (;;)
        if (auto result = call(); result >= 0 || errno != EINTR) return result;
}

/// fsync(2), uninterrupted.
bool synced(int fd);

/// openat with O_CLOEXEC, uninterrupted; an empty Fd, with errno, for every failure.
Fd try_open_at(int directory, const std::string& path, int flags, mode_t mode = 0);

}  // namespace berth::sys
