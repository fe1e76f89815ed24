// Empty directories in memory to mount in a container: its /dev, /run, /tmp, and what hides other directories.
#pragma once
#include <sys/types.h>

#include <cstdint>

#include "runtime/base/fd.hh"

namespace berth::mount {

/// Makes them in one file system that is there already: one of its own for each costs a start forty microseconds, the
/// half of it at the end.
class FreshDirectories {
  public:
    /// `memory`: a directory of a tmpfs that is mounted nosuid and nodev, which must outlive this object; -1: each gets
    /// a file system of its own.
    explicit FreshDirectories(int memory = -1) : memory_(memory) {}

    /// A mount of a new directory, with MOUNT_ATTR_* `attributes`, attached nowhere. Throws SysError.
    Fd make(mode_t mode, uint64_t attributes);

    /// A mount of a directory that is empty and stays so, attached nowhere; the same directory each time. Throws
    /// SysError.
    Fd empty();

  private:
    int memory_;
    unsigned made_ = 0;
    Fd empty_;
};

}  // namespace berth::mount
