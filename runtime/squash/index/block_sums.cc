#include "runtime/squash/index/block_sums.hh"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/squash/index/tree.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

/// The hash of the block of `size` bytes (as in FileData::blocks) at `start`; 0 when there is no sum of it.
uint64_t hash_of(const BlockSums& sums, uint64_t start, uint32_t size) {
    auto found = std::lower_bound(sums.begin(), sums.end(), start,
                                  [](const BlockSum& sum, uint64_t at) { return sum.start < at; });
    return found != sums.end() && found->start == start && found->size == (size & block_size_mask) ? found->hash : 0;
}

}  // namespace

void add_sums(Tree& tree, const BlockSums& sums) {
    TreeData& in = tree.data();
    in.hashes.assign(in.blocks.size(), 0);
    in.fragment_hashes.clear();
    for (const Node& node : in.nodes) {
        if (!S_ISREG(node.mode)) continue;
        uint64_t start = node.start;
        for (uint64_t i = node.first; i < node.first + node.count; start += in.blocks[i++] & block_size_mask)
            if (in.blocks[i] != 0) in.hashes[i] = hash_of(sums, start, in.blocks[i]);
    }
    for (const Fragment& fragment : in.fragments)
        in.fragment_hashes.push_back(hash_of(sums, fragment.start, fragment.size));
}

}  // namespace berth::squash
