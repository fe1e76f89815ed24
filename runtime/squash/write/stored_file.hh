// Where the data of a file of a new squashfs file has gone.
#pragma once
#include <cstdint>
#include <vector>

namespace berth::squash {

struct StoredFile {
    static constexpr uint32_t no_fragment = 0xFFFFFFFF;

    uint64_t size = 0;             ///< bytes
    uint64_t holes = 0;            ///< bytes of it that are stored nowhere, because they are zeros
    uint64_t start = 0;            ///< offset of the first stored block
    std::vector<uint32_t> blocks;  ///< on-disk sizes, block_uncompressed among their bits; 0 is a hole
    uint32_t fragment = no_fragment;
    uint32_t fragment_offset = 0;
};

}  // namespace berth::squash
