// Metadata blocks of a squashfs file: the 8 KiB units that inodes, directories and tables are packed in. Each has two
// bytes before it, little-endian: its size as stored, with bit 15 for one that is not compressed. Source: Linux
// fs/squashfs/cache.c and block.c.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/base/sys.hh"
#include "runtime/squash/format/super.hh"

namespace berth::squash {

/// What may still be unpacked and kept of a file, in bytes.
class Budget {
  public:
    Budget(const SquashFile& file, uint64_t bytes) : file_(file), left_(bytes) {}
    /// Throws Error when less than `bytes` are left.
    void charge(uint64_t bytes) {
        if (bytes > left_) file_.too_large("its metadata is larger than the limit");
        left_ -= bytes;
    }

  private:
    const SquashFile& file_;
    uint64_t left_;
};

struct MetadataBlock {
    std::unique_ptr<char[]> bytes;
    uint32_t size = 0;
    uint64_t next = 0;  ///< where the following block starts in the file
};

/// Unpacks metadata blocks and keeps them, since inodes are visited in another order than they are stored in.
class Metadata {
  public:
    static constexpr size_t block_bytes = 8192;

    Metadata(const SquashFile& file, Codec codec, Budget& budget) : file_(file), codec_(codec), budget_(budget) {}

    /// The block that starts at `at`; the reference stays valid. Throws Error when it is no block.
    const MetadataBlock& block(uint64_t at);

    /// A table of `count` records of `Record`, found through the list of its blocks' positions at `list`.
    template <typename Record>
    std::vector<Record> table(uint64_t list, uint64_t count) {
        static_assert(block_bytes % sizeof(Record) == 0);
        check_table(list, count * sizeof(Record));
        std::vector<Record> out(count);
        read_table(list, sys::bytes_of(std::span(out)));
        return out;
    }

    const SquashFile& file() const { return file_; }
    /// Bytes of all blocks unpacked so far, each counted once.
    uint64_t unpacked() const { return unpacked_; }
    Budget& budget() { return budget_; }

  private:
    MetadataBlock load(uint64_t at);
    void check_table(uint64_t list, uint64_t bytes);
    void read_table(uint64_t list, std::span<char> out);

    const SquashFile& file_;
    Codec codec_;
    Budget& budget_;
    uint64_t unpacked_ = 0;
    std::unordered_map<uint64_t, MetadataBlock> blocks_;
};

/// Reads on from a place in a row of metadata blocks.
class Cursor {
  public:
    /// `reference` as squashfs stores it: position of the block from `table` in the upper bits, byte in the unpacked
    /// block in the lower 16.
    Cursor(Metadata& metadata, uint64_t table, uint64_t reference);

    /// Fills all of `out`, over the ends of blocks. Throws Error past the last block.
    void read(std::span<char> out);

    /// The next record, as its bytes are stored (little-endian).
    template <typename Record>
    Record take() {
        Record out;
        read(sys::bytes_of(out));
        return out;
    }

  private:
    Metadata& metadata_;
    const MetadataBlock* block_;
    size_t offset_;
};

}  // namespace berth::squash
