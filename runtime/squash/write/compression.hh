// How the blocks of a squashfs file are packed: the codec, its level, and libsquashfs' compressor for it.
#pragma once
#include <sqfs/compressor.h>

#include <cstdint>

#include "runtime/config/words.hh"
#include "runtime/squash/format/codec.hh"
#include "runtime/squash/write/writer_file.hh"

namespace berth::squash {

struct Compression {
    Codec codec = Codec::zstd;  ///< zstd, lz4, gzip, or none: everything stored as it is
    unsigned level = 0;         ///< as the codec counts; 0: what suits a pull (zstd 1, lz4's fast form, gzip 6)
};

/// Of a CompressorPool.
struct PoolLimits {
    unsigned threads = 1;
    /// Buffers altogether. A file that is being written may hold two of them for as long as it likes, so that fewer
    /// than two for each file and one more would stand still.
    unsigned buffers = 8;
    uint32_t block_size = 128 * 1024;  ///< bytes, a power of two from 4 KiB to 1 MiB
};

/// The codec of a setting. Pure.
Codec codec_of(plan::LayerCodec setting);

/// The highest level that the codec knows; 0 when it has none. Pure.
unsigned highest_level(Codec codec);

/// What the superblock calls it. A file whose blocks are all stored as they are counts as gzip, which every kernel
/// knows.
Codec stored_codec(Codec codec);

/// Bytes that one compressing thread needs for blocks of 128 KiB, its scratch included: an upper bound of what
/// zstd 1.5's ZSTD_estimateCCtxSize, LZ4_sizeofStateHC and zlib's zconf.h say. Pure.
uint64_t compressor_memory(const Compression& compression);

/// libsquashfs' compressor, which the caller owns; sqfs_copy() gives another thread its own. Throws Error.
SqfsPtr<sqfs_compressor_t> make_compressor(const Compression& compression, uint32_t block_size);

}  // namespace berth::squash
