// Collects the ends of files that fill no block in common blocks, the fragments, and finds the ends that are there
// already.
#pragma once
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/squash/write/block_writer.hh"

namespace berth::squash {

/// For one thread. What it does depends on the order of its calls alone.
class TailPacker {
  public:
    /// Fragments go to `blocks` and are read again from `file`.
    TailPacker(BlockWriter& blocks, OutputFile& file, CompressorPool& pool)
        : blocks_(blocks), file_(file), pool_(pool) {}

    /// Gives `file` its end, `bytes`: more than none, less than a block.
    void add(StoredFile& file, std::span<const uint8_t> bytes);
    /// Sends the last fragment on its way.
    void finish();

  private:
    struct Place {
        uint32_t fragment;
        uint32_t offset;
        uint32_t size;
    };
    struct Unpacked {
        uint32_t fragment;
        std::vector<uint8_t> bytes;
    };

    bool is_at(const Place& place, std::span<const uint8_t> bytes);
    const uint8_t* unpacked(uint32_t fragment);
    std::vector<uint8_t>& remember(uint32_t fragment);
    void flush();

    BlockWriter& blocks_;
    OutputFile& file_;
    CompressorPool& pool_;
    Buffer current_;
    uint32_t used_ = 0;
    uint32_t number_ = 0;  ///< of the current fragment
    /// by the hash of an end; one for a hash, so that a search is one comparison
    std::unordered_map<uint64_t, Place> places_;
    /// a ring of fragments as they were, since most copies are near each other
    std::vector<Unpacked> unpacked_;
    size_t next_ = 0;
};

}  // namespace berth::squash
