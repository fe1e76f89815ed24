#include "runtime/squash/read/small_files.hh"

#include <sys/stat.h>

#include <algorithm>
#include <tuple>

namespace berth::squash {

namespace {

constexpr uint64_t page_bytes = 4096;
/// Of a file's name and attributes, in a FUSE mount and in an overlay over it.
constexpr uint64_t name_bytes = 3072;

/// Layer, place there, place in the unpacked fragment block, inode.
using StoredPlace = std::tuple<uint32_t, uint64_t, uint32_t, uint32_t>;

StoredPlace place_of(const FileData& file, uint32_t inode) {
    // A file with blocks of its own and a tail is read from its start.
    if (file.has_fragment && file.block_count == 0)
        return {file.layer, file.fragment_start, file.fragment_offset, inode};
    return {file.layer, file.start, 0, inode};
}

}  // namespace

SmallFiles small_files(const Index& index, uint64_t most_memory) {
    SmallFiles out;
    std::vector<StoredPlace> files;
    for (uint32_t number = 1; number <= index.inode_count(); ++number) {
        auto inode = index.inode(number);
        if (!inode || !S_ISREG(inode->mode) || inode->size == 0 || inode->size > largest_small_file) continue;
        auto file = index.file(number, 0, 1);
        if (!file) continue;
        out.memory += (inode->size + page_bytes - 1) / page_bytes * page_bytes + name_bytes;
        if (out.memory > most_memory) return {};
        files.push_back(place_of(*file, number));
    }
    std::sort(files.begin(), files.end());
    out.inodes.reserve(files.size());
    for (const StoredPlace& place : files) out.inodes.push_back(std::get<3>(place));
    return out;
}

}  // namespace berth::squash
