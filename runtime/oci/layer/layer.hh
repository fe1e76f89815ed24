// One layer blob, fed as it is downloaded, becomes one squashfs file: hash, inflate, hash again, parse the tar, write.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/limits.hh"
#include "runtime/squash/write/writer.hh"

namespace berth::oci {

struct ConvertOptions {
    LayerLimits limits;
    squash::CompressorPool* pool = nullptr;          ///< see LayerWriter
    std::function<void(uint64_t)> on_final = {};     ///< see LayerWriter
    LargeWindows* windows = nullptr;                 ///< see make_zstd_decompressor(); outlives the converter
};

struct ConvertedLayer {
    Digest digest;   ///< of the bytes fed
    Digest diff_id;  ///< of the unpacked tar stream
    uint64_t compressed_size = 0;
    uint64_t unpacked_size = 0;
    uint64_t entries = 0;          ///< entries of the squashfs file, the root included
    uint64_t skipped_devices = 0;  ///< device nodes in the tar: never made
    squash::BlockSums sums = {};   ///< of the squashfs file
};

/// A push pipeline in bounded memory: sha256 in the caller's thread, everything after it in a thread of its own,
/// compression in more threads still. To be used by one thread at a time. The digests are reported, not judged: the
/// caller compares them.
class LayerConverter {
  public:
    /// Writes to the empty regular file `squash_fd`, opened for reading and writing, which the caller owns. `what`
    /// names the layer in errors.
    LayerConverter(int squash_fd, const std::string& what, const ConvertOptions& options = {});
    /// Stops the threads without finishing, when finish() has not been called. The file is then worthless.
    ~LayerConverter();
    LayerConverter(const LayerConverter&) = delete;
    LayerConverter& operator=(const LayerConverter&) = delete;

    /// Takes the next bytes of the blob (gzip, zstd or plain tar, recognised by content). Blocks while the pipeline is
    /// full. Rethrows the Error of the pipeline once it has failed.
    void write(std::string_view data);

    /// To be called once, after the last byte. Waits for the pipeline and completes the squashfs file (without fsync);
    /// throws its Error.
    ConvertedLayer finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::oci
