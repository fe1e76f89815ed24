// Unpacks layer blobs as a stream: gzip, zstd, or nothing at all, recognised by their first bytes.
#pragma once
#include <memory>
#include <string_view>

#include "runtime/oci/layer/decompressor.hh"
#include "runtime/oci/layer/gzip.hh"

namespace berth::oci {

/// zstd with any number of frames, skippable ones included; windows up to 128 MiB.
std::unique_ptr<Decompressor> make_zstd_decompressor(Sink sink);
/// Chooses by the first bytes: gzip, zstd, or else the bytes as they are. Media types are not asked, since registries
/// are known to lie about them.
std::unique_ptr<Decompressor> make_decompressor(Sink sink, GzipEngine engine = best_gzip_engine());

}  // namespace berth::oci
