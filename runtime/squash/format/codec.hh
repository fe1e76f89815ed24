// The codecs of squashfs, and the unpacking of single blocks, safe for hostile bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace berth::squash {

/// How the blocks of a squashfs file are compressed; the numbers are those of the superblock.
enum class Codec : uint16_t { none = 0, gzip = 1, lzma = 2, lzo = 3, xz = 4, lz4 = 5, zstd = 6 };

/// True when unpack() knows the codec (lzma, the form before xz, is refused).
bool can_unpack(Codec codec);

/// Unpacks `in` to the start of `out`. Returns the unpacked size, or -1 when the bytes are corrupt or do not fit. Keeps
/// one context a thread; allocates nothing whose size the input chooses.
long unpack(Codec codec, std::string_view in, std::span<char> out);

}  // namespace berth::squash
