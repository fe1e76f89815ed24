// The codec and block size of a file that is made of layers.
#pragma once
#include <vector>

#include "runtime/squash/index/index_types.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

/// The format that most bytes of the tree's files have already, of those that can be written; zstd with 128 KiB when
/// there is none. Pure.
LayerInfo common_format(const TreeData& tree, const std::vector<LayerInfo>& layers);

}  // namespace berth::squash
