// The tree of a squashfs file in memory, the merge of layers by the OCI rules, and the index made from the result.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/squash/format/sif.hh"
#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// An empty file of this name marks a directory that its layer has no entry for, only entries below: in the merge it
/// takes the attributes of the lower layers' directory. Names starting with `.wh..wh.` never survive a merge.
inline constexpr std::string_view implied_directory_marker = ".wh..wh.implied";

/// Limits that keep a hostile file from taking the machine; a file past them is refused with Error.
struct TreeLimits {
    uint64_t inodes = 20'000'000;
    unsigned depth = 1024;
    uint64_t metadata_bytes = 4ULL << 30;  ///< unpacked inode, directory and xattr tables together
};

struct TreeData;

/// One layer's entries. Move-only; made by read_tree and merge.
class Tree {
  public:
    explicit Tree(std::unique_ptr<TreeData> data);
    Tree(Tree&&) noexcept;
    Tree& operator=(Tree&&) noexcept;
    ~Tree();
    TreeData& data() const { return *data_; }
    /// Number of names in it, the root not counted.
    uint64_t names() const;

  private:
    std::unique_ptr<TreeData> data_;
};

/// Reads all metadata of the squashfs 4.0 file `fd` (gzip, lzo, xz, lz4, zstd). Files will refer to layer number
/// `layer`. `info` receives codec and block size (its name is left as it is). Throws Error naming `what` for anything
/// out of bounds or of another version. The squashfs is all of the file, or the part `place` of it (a partition of a
/// SIF file): the tree's offsets are those of the whole file either way.
Tree read_tree(int fd, const std::string& what, uint32_t layer, LayerInfo& info, const TreeLimits& limits = {},
               const Extent& place = {});

/// Lays `layers` over one another, the base first, by the OCI layer rules: `.wh.NAME` removes NAME of lower layers,
/// `.wh..wh..opq` empties the directory of lower layers whatever its place among its siblings, a name given beside its
/// own whiteout survives, directory over directory replaces the attributes, anything else replaces the whole subtree.
/// No `.wh.` name is left in the result. Names of one inode in one layer stay hard links. Throws Error for a whiteout
/// of nothing (`.wh.`, `.wh..`, `.wh...`).
Tree merge(std::vector<Tree> layers);

/// The bytes of an index file of `tree` (which has no whiteouts left), with what the runtime needs of the image's
/// config.
std::string build_index(const Tree& tree, const std::vector<LayerInfo>& layers, const plan::ImageConfig& config);

}  // namespace berth::squash
