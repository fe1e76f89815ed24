// What the blocks of a squashfs file are like, so that damage is found later without anything being read twice now.
#pragma once
#include <cstdint>
#include <vector>

namespace berth::squash {

/// A data or fragment block as it is stored.
struct BlockSum {
    uint64_t start = 0;  ///< offset in the file
    uint64_t size = 0;   ///< bytes
    uint64_t hash = 0;   ///< of them, as format::bulk_hash in index_format.hh has it
};

/// In the order of the file; blocks do not overlap.
using BlockSums = std::vector<BlockSum>;

class Tree;

/// Gives the tree of one layer the hashes of its blocks, of which an index makes use. What `sums` have nothing of stays
/// unknown.
void add_sums(Tree& tree, const BlockSums& sums);

}  // namespace berth::squash
