// The kernel's pages: 4 KiB on x86_64, also 16 and 64 KiB on aarch64. Nothing here may take their size for granted; a
// page of an index (squash/index) and a block of a squashfs file are sizes of formats, the same everywhere.
#pragma once
#include <unistd.h>

#include <cstddef>

namespace berth {

inline size_t page_size() {
    static const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

/// The longest argument or variable that a program can be given, with the end of the string: MAX_ARG_STRLEN of the
/// kernel's include/uapi/linux/binfmts.h.
inline size_t longest_string() { return 32 * page_size(); }

}  // namespace berth
