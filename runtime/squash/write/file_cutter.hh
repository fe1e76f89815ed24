// Cuts the data of files into blocks, holes and tails, as the squashfs format wants them.
#pragma once
#include <cstdint>
#include <string_view>

#include "runtime/squash/write/block_writer.hh"
#include "runtime/squash/write/tail_packer.hh"

namespace berth::squash {

/// One file after the other: begin, the bytes, end. For one thread.
class FileCutter {
  public:
    FileCutter(OutputFile& file, CompressorPool& pool)
        : pool_(pool), blocks_(file, pool), tails_(blocks_, file, pool) {}

    /// `file` must live until finish(), at which its fields are filled in. With `may_be_program` its data are stored
    /// uncompressed if they begin as an ELF file does.
    void begin(StoredFile& file, bool may_be_program = false);
    void append(std::string_view data);
    void append_zeros(uint64_t size);
    void end();
    /// See BlockWriter::finish().
    void finish(sqfs_frag_table_t& table);
    const BlockSums& sums() const { return blocks_.sums(); }

  private:
    void flush();
    bool is_program();
    void add_holes(uint64_t count, uint64_t bytes);

    CompressorPool& pool_;
    BlockWriter blocks_;
    TailPacker tails_;
    StoredFile* file_ = nullptr;
    bool may_be_program_ = false;
    bool has_blocks_ = false;  ///< the file has some already, or holes
    Buffer current_;           ///< the block that is being filled
    uint32_t used_ = 0;
};

}  // namespace berth::squash
