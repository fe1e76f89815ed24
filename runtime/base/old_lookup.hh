// openat2(2) in parts, for kernels before 5.6: used by sys.hh, which chooses.
#pragma once
#include <sys/types.h>

#include <string>

namespace berth::sys::old {

/// As sys::open_in_root, or open_beneath with `beneath`: part by part, each opened in the
/// directory before it without following a link, so that a rename meanwhile leads nowhere else. -1 and errno for a
/// failure.
int open_inside(int root, const std::string& path, int flags, mode_t mode, bool beneath);

}  // namespace berth::sys::old
