// The tree of a squashfs file in memory, the merge of layers by the OCI rules, and the index made from the result.
//
// The rules: https://github.com/opencontainers/image-spec/blob/v1.1.1/layer.md, "Applying Changesets".
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/words.hh"
#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// An empty file of this name marks a directory that its layer has no entry for, only entries below: in the merge it
/// takes the attributes of the lower layers' directory. Names starting with `.wh..wh.` never survive a merge.
inline constexpr std::string_view implied_directory_marker = ".wh..wh.implied";

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

/// How many names of a tree merge() takes for whiteouts. In an image file that is no layer they are files.
uint64_t whiteout_names(const Tree& tree);

/// Lays `layers` over one another, the base first, by the OCI layer rules: `.wh.NAME` removes NAME of lower layers,
/// `.wh..wh..opq` empties the directory of lower layers whatever its place among its siblings, a name given beside its
/// own whiteout survives, directory over directory replaces the attributes, anything else replaces the whole subtree.
/// No `.wh.` name is left in the result. Names of one inode in one layer stay hard links. Throws Error for a whiteout
/// of nothing (`.wh.`, `.wh..`, `.wh...`).
Tree merge(std::vector<Tree> layers);

/// Gives the objects of `upper`, which a container wrote over the image `lower`, the image's modes where they have
/// those that the container has shown for them (shown_mode.hh).
void restore_modes(Tree& upper, const Tree& lower, plan::ImageModes shown);

/// Puts all that is in `tree` into the directory `name` of a new root; the old root is that directory.
void put_below(Tree& tree, std::string_view name);

/// The bytes of an index file of `tree` (which has no whiteouts left), with what the runtime needs of the image's
/// config.
std::string build_index(const Tree& tree, const std::vector<LayerInfo>& layers, const plan::ImageConfig& config);

}  // namespace berth::squash
