// Unpacks single squashfs blocks of every codec, safely for hostile bytes.
#pragma once
#include <cstddef>

#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// True when unpack() knows the codec (lzma, the form before xz, is refused).
bool can_unpack(Codec codec);

/// Unpacks the `in_size` bytes at `in` into at most `out_size` bytes at `out`. Returns the unpacked size, or -1 when
/// the bytes are corrupt or do not fit. Keeps one context a thread; allocates nothing whose size the input chooses.
long unpack(Codec codec, const void* in, size_t in_size, void* out, size_t out_size);

}  // namespace berth::squash
