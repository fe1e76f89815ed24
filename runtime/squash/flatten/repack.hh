// Packs the files of layers anew whose blocks do not fit a file that is being written: another codec, or another block
// size.
#pragma once
#include <sqfs/frag_table.h>

#include <functional>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index/index_types.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/file_cutter.hh"

namespace berth::squash {

class Repacker {
  public:
    /// Writes behind what `file` has. `what` names the file in errors.
    Repacker(OutputFile& file, const std::vector<Fd>& layers, const std::vector<LayerInfo>& infos,
             const Compression& compression, uint32_t block_size, std::string what);

    /// The content of `node`, a file, as that of `file`, which is whole after finish() and must live until then;
    /// `advance` is told of bytes as they are read. Throws Error when the layer is damaged.
    void add(StoredFile& file, const TreeData& tree, const Node& node,
             const std::function<void(uint64_t bytes)>& advance);
    /// Waits until all is written, and puts the new fragments behind those of `table`.
    void finish(sqfs_frag_table_t& table);

  private:
    DataReader reader_;
    CompressorPool pool_;
    FileCutter cutter_;
    std::string what_;
    std::vector<char> piece_;
    std::vector<StoredFile*> files_;
};

}  // namespace berth::squash
