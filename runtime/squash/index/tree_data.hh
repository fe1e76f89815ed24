// What a Tree (tree.hh) holds: flat arrays, so that layers of 10^5 entries are read, merged and indexed without an
// allocation per entry.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth::squash {

/// An inode. `first` and `count` are a range: of `blocks` for a file, of `children` for a directory; for a symlink
/// `first` is the place of its target in `text` and `size` the length.
struct Node {
    static constexpr uint32_t none = ~0U;

    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
    uint32_t rdev = 0;
    int64_t mtime = 0;
    uint64_t size = 0;
    uint64_t first = 0;
    uint64_t start = 0;  ///< of a file: offset of its first block in the layer file
    uint32_t count = 0;
    uint32_t layer = 0;
    uint32_t fragment = none;  ///< position in `fragments`
    uint32_t fragment_offset = 0;
    uint32_t xattrs = 0;  ///< position in `xattr_sets`; 0 for none
    uint32_t parent = 0;  ///< of a directory
};

/// A name in a directory; the name is `length` bytes of `text`.
struct Child {
    uint64_t text = 0;
    uint32_t node = 0;
    uint32_t length = 0;
};

struct Fragment {
    uint64_t start = 0;
    uint32_t size = 0;  ///< on disk; bit 24 set: stored uncompressed
    uint32_t unused = 0;
};
static_assert(sizeof(Fragment) == 16, "read from the squashfs table as it stands");

using XattrSet = std::vector<std::pair<std::string, std::string>>;

/// Nodes stand in breadth-first order with the root first; the children of a directory stand together, sorted by the
/// bytes of their names.
struct TreeData {
    std::vector<Node> nodes;
    std::vector<Child> children;
    std::vector<uint32_t> blocks;
    std::vector<Fragment> fragments;
    std::vector<uint64_t> hashes;           ///< of the stored bytes of each of `blocks`, 0: not known; empty: none is
    std::vector<uint64_t> fragment_hashes;  ///< the same for `fragments`
    std::vector<XattrSet> xattr_sets = std::vector<XattrSet>(1);
    std::string text;

    std::string_view name(const Child& child) const { return {text.data() + child.text, child.length}; }
    std::string_view target(const Node& symlink) const { return {text.data() + symlink.first, symlink.size}; }
    uint64_t fragment_hash(uint32_t fragment) const {
        return fragment < fragment_hashes.size() ? fragment_hashes[fragment] : 0;
    }
    /// The node called `name` in `directory`, or Node::none.
    uint32_t find(const Node& directory, std::string_view name) const;
};

/// Bits of a block's on-disk size.
inline constexpr uint32_t block_uncompressed = 1U << 24;
inline constexpr uint32_t block_size_mask = block_uncompressed - 1;

}  // namespace berth::squash
