// Files of layers that are packed in another way than the flattened file: chosen, and packed anew.
#pragma once
#include <sqfs/compressor.h>
#include <sqfs/frag_table.h>

#include <cstdint>
#include <vector>

#include "runtime/squash/data.hh"
#include "runtime/squash/tree_data.hh"
#include "runtime/squash/writer_file.hh"

namespace berth::squash {

/// True when both have the same codec and block size, so that blocks of one can stand in a file of the other.
inline bool same_format(const LayerInfo& one, const LayerInfo& other) { return one.codec == other.codec && one.block_size == other.block_size; }

/// The format that most bytes of the tree's files have already, of those that can be written; zstd with 128 KiB when there is none. Pure.
LayerInfo common_format(const Tree::Impl& tree, const std::vector<LayerInfo>& layers);

/// A compressor for data and metadata of a file in `format`. Throws Error by way of `file`.
SqfsPtr<sqfs_compressor_t> make_flat_compressor(const OutputFile& file, const LayerInfo& format);

/// Where a file that was packed anew lies; as in Node.
struct RepackedFile {
    uint64_t start = 0;
    std::vector<uint32_t> blocks;
    uint32_t fragment = Node::none;
    uint32_t fragment_offset = 0;
};

/// Appends files to the output, one after the other; their ends share fragments. Nothing else may add fragments meanwhile.
class Repacker {
  public:
    /// Borrows everything but copies of the layers' descriptors.
    Repacker(const Tree::Impl& tree, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos, uint32_t block_size, OutputFile& file,
             sqfs_compressor_t* compressor, sqfs_frag_table_t* fragments, const std::string& what);

    /// Throws Error when the layer's data cannot be read or the output not be written.
    RepackedFile add(const Node& node);
    /// Writes the last fragment.
    void finish();

  private:
    uint32_t write_block(const char* data, size_t size);
    void add_tail(const char* data, size_t size, RepackedFile& out);

    const Tree::Impl& tree_;
    DataReader reader_;
    uint32_t block_size_;
    OutputFile& file_;
    sqfs_compressor_t* compressor_;
    sqfs_frag_table_t* fragments_;
    const std::string& what_;
    std::vector<char> tail_;    ///< the fragment that is being filled
    std::vector<char> packed_;
};

}  // namespace berth::squash
