// Unpacks single squashfs blocks of every codec, safely for hostile bytes.
#pragma once
#include <span>
#include <string_view>

#include "runtime/squash/index/index.hh"

namespace berth::squash {

/// True when unpack() knows the codec (lzma, the form before xz, is refused).
bool can_unpack(Codec codec);

/// Unpacks `in` to the start of `out`. Returns the unpacked size, or -1 when the bytes are corrupt or do not fit. Keeps
/// one context a thread; allocates nothing whose size the input chooses.
long unpack(Codec codec, std::string_view in, std::span<char> out);

}  // namespace berth::squash
