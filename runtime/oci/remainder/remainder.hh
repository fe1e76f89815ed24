// The remainder of a layer's tar stream: all that its squashfs file does not keep. From both the stream can be made
// again, byte for byte, and with it the diff_id.
//
// A zstd stream of records. Each begins with a number (LEB128) whose lowest bit says which it is, and whose other bits
// are a size in bytes:
//   0  bytes of the stream that follow as they are; of size 0 it is the end
//   1  bytes of a file of the layer; offset and length of the path (LEB128) and the path follow
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/oci/sink.hh"

namespace berth::oci {

/// Bytes of a longer path are a damaged remainder.
inline constexpr uint64_t remainder_path_limit = 4096;

/// Bytes of a file, by a path relative to the layer's root.
struct FilePart {
    std::string path;
    uint64_t offset = 0;
    uint64_t size = 0;
};

/// Puts records into words. Neighbours that belong together become one.
class RemainderWriter {
  public:
    explicit RemainderWriter(Sink packed);
    ~RemainderWriter();

    void add_bytes(std::string_view bytes);
    void add_part(const std::string& path, uint64_t offset, uint64_t size);
    /// To be called once, at the end.
    void finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// Told what a remainder says, in its order.
struct RemainderSink {
    Sink bytes;
    std::function<void(const FilePart&)> part;
};

/// Reads a remainder, in pieces of any size, that anybody may have made. Throws Error for a damaged one, and for one
/// that stands for more than `limit` bytes of tar.
class RemainderReader {
  public:
    RemainderReader(RemainderSink sink, uint64_t limit);
    ~RemainderReader();

    void feed(std::string_view packed);
    /// Throws Error when it is cut off.
    void finish();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::oci
