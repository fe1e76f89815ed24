// What starts of an image have read, in the order of their first use: extents of files, and directories, as inodes of
// its index; and names that they have looked for where there are none. Pure.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace berth::squash {

/// Pages of 4 KiB of a file; of a directory that was listed, none.
struct PrefetchExtent {
    uint32_t inode = 0;
    uint32_t first = 0;
    uint32_t count = 0;
    bool operator==(const PrefetchExtent&) const = default;
};

/// A name that its directory does not have. Python looks for three of them in each package.
struct MissingName {
    uint32_t directory = 0;
    std::string name = {};
    auto operator<=>(const MissingName&) const = default;
};

struct PrefetchList {
    int64_t learnt = 0;  ///< seconds since 1970 at which it was begun
    std::vector<PrefetchExtent> extents = {};
    std::vector<MissingName> missing = {};
};

/// The bytes of a list's file, which is read at each start and understood only when it is of use; null: none.
using PrefetchBytes = std::shared_ptr<const std::string>;

/// What one start has read.
struct PrefetchReads {
    std::vector<PrefetchExtent> extents = {};
    std::vector<MissingName> missing = {};
};

inline constexpr uint64_t prefetch_page = 4096;
/// Most extents of a list, and most bytes of one extent and of all together: what is beyond is left out.
inline constexpr size_t prefetch_extents = 32768;
inline constexpr uint64_t prefetch_extent_bytes = 64ULL << 20;
inline constexpr uint64_t prefetch_bytes = 2ULL << 30;
inline constexpr size_t prefetch_names = 16384;
/// A file with such a list is no longer than this.
inline constexpr size_t prefetch_file_limit = 20 + prefetch_extents * 12 + prefetch_names * 260;

/// The list that the bytes of a file say; an empty one when it is no such file. Whatever the bytes, the list is within
/// the limits above. An inode may be none of the image.
PrefetchList parse_prefetch_list(std::string_view bytes);
/// Its `learnt` alone, 0 when it is no such file.
int64_t prefetch_learnt(std::string_view bytes);
/// The bytes of a file of it, little-endian; parse_prefetch_list() reads them back as the same list.
std::string format_prefetch_list(const PrefetchList& list);

/// `before` and what of `now` it has not, within the limits.
PrefetchList merged(const PrefetchList& before, const PrefetchReads& now);

}  // namespace berth::squash
