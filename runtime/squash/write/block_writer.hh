// Compresses the blocks of one squashfs file in the threads of a pool and writes them in the order in which they came.
#pragma once
#include <sqfs/frag_table.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "runtime/squash/index/block_sums.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/stored_file.hh"
#include "runtime/squash/write/writer_file.hh"

namespace berth::squash {

/// Where a fragment block stands in the file; bit block_uncompressed of `size` as in the fragment table.
struct StoredBlock {
    uint64_t start = 0;
    uint32_t size = 0;
};

enum class Packing { usual, none };

/// Takes its calls from one thread. What it writes depends on their order alone. The blocks of a file follow one
/// another, with nothing between them; a file whose blocks are, byte for byte, those of an earlier one gets the place
/// of these.
///
/// A failure in a thread of the pool is thrown by the next call.
class BlockWriter {
  public:
    /// Writes behind what `file` has.
    BlockWriter(OutputFile& file, CompressorPool& pool);
    /// Drops what is on its way.
    ~BlockWriter();
    BlockWriter(const BlockWriter&) = delete;
    BlockWriter& operator=(const BlockWriter&) = delete;

    /// The next `size` bytes of `file`, which is filled in when they are written, and must live until finish().
    void add_block(StoredFile& file, Buffer bytes, uint32_t size, Packing how = Packing::usual);
    /// `count` blocks without data.
    void add_holes(StoredFile& file, uint64_t count);
    /// After the last block of a file that has any.
    void end_file(StoredFile& file);
    /// Returns its number.
    uint32_t add_fragment(Buffer bytes, uint32_t size);

    /// Where the fragment is, which is waited for.
    StoredBlock fragment(uint32_t number);
    /// Waits until all is written, shortens the file to it and puts the fragments into `table`.
    void finish(sqfs_frag_table_t& table);
    /// After finish().
    const BlockSums& sums() const { return sums_; }

  private:
    struct Item {
        enum class Kind { block, fragment, holes, end };
        Kind kind;
        StoredFile* file = nullptr;
        Buffer bytes = {};
        uint32_t size = 0;  ///< bytes in `bytes`; packed when is_packed
        Packing how = Packing::usual;
        bool is_packed = false;
        bool is_ready = false;
        uint64_t hash = 0;   ///< of the bytes as they will be written
        uint64_t count = 0;  ///< of holes
    };

    void add(Item item);
    void pack(Item& item, Packer& packer) noexcept;
    void write_ready(std::unique_lock<std::mutex>& lock) noexcept;
    void write(Item& item);
    void write_block(const Item& item);
    void write_end(StoredFile& file);
    bool is_stored_at(const StoredFile& one, const StoredFile& other, uint64_t size);
    void note_final();
    StoredBlock put(const Item& item);
    void fail(std::exception_ptr failure) noexcept;
    void check();

    OutputFile& file_;
    CompressorPool& pool_;

    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Item> items_;        ///< in the order of the calls
    unsigned packing_ = 0;          ///< of them with the pool
    bool is_writing_ = false;       ///< by the thread that owns what follows the fragments
    std::atomic<bool> dropped_ = false;
    std::exception_ptr failure_;
    std::vector<StoredBlock> fragments_;
    uint32_t fragments_added_ = 0;  ///< the caller's

    uint64_t position_;
    uint64_t run_hash_ = 0;  ///< of the stored blocks of the file that is being written
    uint64_t run_size_ = 0;  ///< their bytes
    uint64_t run_start_ = 0;
    uint64_t first_hash_ = 0;      ///< of the first of them
    bool may_be_known_ = false;    ///< an earlier file began with the same block, so that this one may give way to it
    std::unordered_map<uint64_t, const StoredFile*> runs_;
    std::unordered_set<uint64_t> first_blocks_;  ///< of the files in runs_
    BlockSums sums_;
};

}  // namespace berth::squash
