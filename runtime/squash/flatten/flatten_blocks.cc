#include "runtime/squash/flatten/flatten_blocks.hh"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

/// Where the kernel cannot copy between these two files itself.
ssize_t copy_through_memory(int from, off_t source, int to, off_t target, uint64_t bytes) {
    std::vector<char> buffer(std::min<uint64_t>(bytes, 1 << 20));
    ssize_t got = ::pread(from, buffer.data(), buffer.size(), source);
    return got <= 0 ? got : ::pwrite(to, buffer.data(), static_cast<size_t>(got), target);
}

/// So much at a time can be told, and interrupted, within a second on slow disks.
constexpr uint64_t part = 32 << 20;
/// Of the file systems that let two files share extents (xfs, btrfs): copy_file_range() shares what begins at the same
/// place of a block in both files, and is whole blocks.
constexpr uint64_t shared_block = 4096;
static_assert(part % shared_block == 0);

void copy_range(int from, uint64_t source, int to, uint64_t target, uint64_t bytes, const std::string& what,
                const std::function<void(uint64_t)>& advance) {
    bool by_kernel = true;
    while (bytes > 0) {
        off_t in = static_cast<off_t>(source), out = static_cast<off_t>(target);
        // First what is left of a block, so that the rest begins with one.
        uint64_t size = std::min(bytes, source % shared_block == 0 ? part : shared_block - source % shared_block);
        ssize_t copied = by_kernel ? ::copy_file_range(from, &in, to, &out, size, 0)
                                   : copy_through_memory(from, in, to, out, bytes);
        if (copied < 0 && errno == EINTR) continue;
        if (copied < 0 && by_kernel && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
            by_kernel = false;
            continue;
        }
        if (copied < 0) throw SysError(cat("writing ", what));
        if (copied == 0)
            throw Error(
                cat("writing ", what, ": a layer is shorter than its metadata says; run berth verify --repair"));
        source += static_cast<uint64_t>(copied), target += static_cast<uint64_t>(copied),
            bytes -= static_cast<uint64_t>(copied);
        advance(static_cast<uint64_t>(copied));
    }
}

}  // namespace

uint64_t BlockRanges::join() {
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
    std::vector<Range> joined;
    for (const Range& range : ranges_) {
        if (!joined.empty() && range.start <= joined.back().start + joined.back().bytes)
            joined.back().bytes = std::max(joined.back().bytes, range.start + range.bytes - joined.back().start);
        else
            joined.push_back(range);
    }
    ranges_ = std::move(joined);
    uint64_t bytes = 0;
    for (const Range& range : ranges_) bytes += range.bytes;
    return bytes;
}

void BlockRanges::copy(int from, int to, uint64_t start, uint64_t& position, const std::string& what,
                       const std::function<void(uint64_t bytes)>& advance) {
    for (Range& range : ranges_) {
        position += (range.start - position) % shared_block;
        range.target = position;
        copy_range(from, range.start, to, start + position, range.bytes, what, advance);
        position += range.bytes;
    }
}

uint64_t BlockRanges::moved(uint64_t start) const {
    auto after = std::upper_bound(ranges_.begin(), ranges_.end(), start,
                                  [](uint64_t at, const Range& range) { return at < range.start; });
    if (after == ranges_.begin()) throw std::logic_error("a block of a layer was not copied");
    return std::prev(after)->target + (start - std::prev(after)->start);
}

std::vector<BlockRanges> ranges_of(const TreeData& tree, size_t layers) {
    std::vector<BlockRanges> out(layers);
    for (const Node& node : tree.nodes) {
        if (!S_ISREG(node.mode)) continue;
        uint64_t bytes = 0;
        for (uint64_t i = node.first; i < node.first + node.count; ++i) bytes += tree.blocks[i] & block_size_mask;
        out.at(node.layer).add(node.start, bytes);
        if (node.fragment == Node::none) continue;
        const Fragment& fragment = tree.fragments[node.fragment];
        out.at(node.layer).add(fragment.start, fragment.size & block_size_mask);
    }
    return out;
}

}  // namespace berth::squash
