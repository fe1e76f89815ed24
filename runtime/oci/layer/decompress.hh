// Unpacks layer blobs as a stream: gzip, zstd, or nothing at all, recognised by their first bytes.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include "runtime/oci/layer/decompressor.hh"
#include "runtime/oci/layer/gzip.hh"

namespace berth::oci {

/// Windows of zstd that are larger than what `zstd -d` takes without being asked, 128 MiB: one at a time, up to 512 MiB
/// (podman's limit), where a pull's memory has room for it. Safe to use from many threads.
class LargeWindows {
  public:
    /// `memory` is limits.pull_memory, in bytes.
    explicit LargeWindows(uint64_t memory) : memory_(memory) {}
    /// Waits until nobody else has one. Throws Error, which says what to set, for one that there is no room for.
    std::unique_lock<std::mutex> take(uint64_t window);

  private:
    std::mutex mutex_;
    uint64_t memory_;
};

/// zstd with any number of frames, skippable ones included; windows up to 128 MiB, and larger ones by `windows`, which
/// must outlive it. To be fed and destroyed by one thread.
std::unique_ptr<Decompressor> make_zstd_decompressor(Sink sink, LargeWindows* windows = nullptr);
/// Chooses by the first bytes: gzip, zstd, or else the bytes as they are. Media types are not asked, since registries
/// are known to lie about them. Throws Error that names xz and bzip2.
std::unique_ptr<Decompressor> make_decompressor(Sink sink, GzipEngine engine = best_gzip_engine(),
                                                LargeWindows* windows = nullptr);

}  // namespace berth::oci
