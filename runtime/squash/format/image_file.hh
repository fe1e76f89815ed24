// Where in a file that people call an image the squashfs lies, and what the file is when there is none.
#pragma once
#include <cstdint>
#include <string>

#include "runtime/squash/format/sif.hh"

namespace berth::squash {

/// Where the squashfs of the regular file `fd` is: the system partition of a SIF file; behind the launch line of a
/// Singularity 2 image; behind the program of an AppImage; nothing (no size) for a file that is all of it. Throws Error
/// naming `what` for a SIF file or AppImage without one.
Extent find_squashfs(int fd, const std::string& what);

/// What else a file is, by its bytes from `start` on, with what to do: "an ext2, ext3 or ext4 file system; unpack ...".
/// Empty for what nobody takes for an image.
std::string other_kind(int fd, uint64_t start = 0);

}  // namespace berth::squash
