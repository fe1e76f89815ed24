#include "runtime/squash/format/codec.hh"

#include <lz4.h>
#include <lzma.h>
#include <lzo/lzo1x.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdint>

namespace berth::squash {

namespace {

const uint8_t* bytes(std::string_view in) { return reinterpret_cast<const uint8_t*>(in.data()); }
uint8_t* bytes(std::span<char> out) { return reinterpret_cast<uint8_t*>(out.data()); }

class ZstdContext {
  public:
    ZstdContext() : context_(ZSTD_createDCtx()) {}
    ~ZstdContext() { ZSTD_freeDCtx(context_); }
    ZstdContext(const ZstdContext&) = delete;
    ZstdContext& operator=(const ZstdContext&) = delete;
    ZSTD_DCtx* get() { return context_; }

  private:
    ZSTD_DCtx* context_;
};

class ZlibContext {
  public:
    ZlibContext() : ready_(inflateInit(&stream_) == Z_OK) {}
    ~ZlibContext() {
        if (ready_) inflateEnd(&stream_);
    }
    ZlibContext(const ZlibContext&) = delete;
    ZlibContext& operator=(const ZlibContext&) = delete;
    /// A stream at its start, or null without memory.
    z_stream* fresh() { return ready_ && inflateReset(&stream_) == Z_OK ? &stream_ : nullptr; }

  private:
    z_stream stream_{};
    bool ready_;
};

long unpack_zstd(std::string_view in, std::span<char> out) {
    thread_local ZstdContext context;
    if (!context.get()) return -1;
    size_t size = ZSTD_decompressDCtx(context.get(), out.data(), out.size(), in.data(), in.size());
    return ZSTD_isError(size) ? -1 : static_cast<long>(size);
}

long unpack_gzip(std::string_view in, std::span<char> out) {
    thread_local ZlibContext context;
    z_stream* stream = context.fresh();
    if (!stream) return -1;
    stream->next_in = const_cast<Bytef*>(bytes(in));  // the library's interface lacks const
    stream->avail_in = static_cast<uInt>(in.size());
    stream->next_out = bytes(out);
    stream->avail_out = static_cast<uInt>(out.size());
    return inflate(stream, Z_FINISH) == Z_STREAM_END ? static_cast<long>(stream->total_out) : -1;
}

long unpack_lz4(std::string_view in, std::span<char> out) {
    int size =
        LZ4_decompress_safe(in.data(), out.data(), static_cast<int>(in.size()), static_cast<int>(out.size()));
    return size < 0 ? -1 : size;
}

long unpack_xz(std::string_view in, std::span<char> out) {
    // mksquashfs never takes a dictionary larger than a block, and a block is at most 1 MiB.
    uint64_t memory = 64 << 20;
    size_t in_at = 0;
    size_t out_at = 0;
    auto result = lzma_stream_buffer_decode(&memory, 0, nullptr, bytes(in), &in_at, in.size(), bytes(out), &out_at,
                                            out.size());
    return result == LZMA_OK ? static_cast<long>(out_at) : -1;
}

long unpack_lzo(std::string_view in, std::span<char> out) {
    lzo_uint size = out.size();
    int result = lzo1x_decompress_safe(bytes(in), in.size(), bytes(out), &size, nullptr);
    return result == LZO_E_OK ? static_cast<long>(size) : -1;
}

}  // namespace

bool can_unpack(Codec codec) {
    return codec == Codec::gzip || codec == Codec::lzo || codec == Codec::xz || codec == Codec::lz4 ||
           codec == Codec::zstd;
}

long unpack(Codec codec, std::string_view in, std::span<char> out) {
    switch (codec) {
        case Codec::zstd:
            return unpack_zstd(in, out);
        case Codec::gzip:
            return unpack_gzip(in, out);
        case Codec::lz4:
            return unpack_lz4(in, out);
        case Codec::xz:
            return unpack_xz(in, out);
        case Codec::lzo:
            return unpack_lzo(in, out);
        case Codec::none:
        case Codec::lzma:
            break;
    }
    return -1;
}

}  // namespace berth::squash
