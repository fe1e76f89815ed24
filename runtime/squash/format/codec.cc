#include "runtime/squash/format/codec.hh"

#include <lz4.h>
#include <lzma.h>
#include <lzo/lzo1x.h>
#include <zlib.h>
#include <zstd.h>

namespace berth::squash {

namespace {

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

long unpack_zstd(const void* in, size_t in_size, void* out, size_t out_size) {
    thread_local ZstdContext context;
    if (!context.get()) return -1;
    size_t size = ZSTD_decompressDCtx(context.get(), out, out_size, in, in_size);
    return ZSTD_isError(size) ? -1 : static_cast<long>(size);
}

long unpack_gzip(const void* in, size_t in_size, void* out, size_t out_size) {
    thread_local ZlibContext context;
    z_stream* stream = context.fresh();
    if (!stream) return -1;
    stream->next_in = static_cast<Bytef*>(const_cast<void*>(in));
    stream->avail_in = static_cast<uInt>(in_size);
    stream->next_out = static_cast<Bytef*>(out);
    stream->avail_out = static_cast<uInt>(out_size);
    return inflate(stream, Z_FINISH) == Z_STREAM_END ? static_cast<long>(stream->total_out) : -1;
}

long unpack_lz4(const void* in, size_t in_size, void* out, size_t out_size) {
    int size = LZ4_decompress_safe(static_cast<const char*>(in), static_cast<char*>(out), static_cast<int>(in_size),
                                   static_cast<int>(out_size));
    return size < 0 ? -1 : size;
}

long unpack_xz(const void* in, size_t in_size, void* out, size_t out_size) {
    // mksquashfs never takes a dictionary larger than a block, and a block is at most 1 MiB.
    uint64_t memory = 64 << 20;
    size_t in_at = 0;
    size_t out_at = 0;
    auto result = lzma_stream_buffer_decode(&memory, 0, nullptr, static_cast<const uint8_t*>(in), &in_at, in_size,
                                            static_cast<uint8_t*>(out), &out_at, out_size);
    return result == LZMA_OK ? static_cast<long>(out_at) : -1;
}

long unpack_lzo(const void* in, size_t in_size, void* out, size_t out_size) {
    lzo_uint size = out_size;
    int result = lzo1x_decompress_safe(static_cast<const unsigned char*>(in), in_size, static_cast<unsigned char*>(out),
                                       &size, nullptr);
    return result == LZO_E_OK ? static_cast<long>(size) : -1;
}

}  // namespace

bool can_unpack(Codec codec) {
    return codec == Codec::gzip || codec == Codec::lzo || codec == Codec::xz || codec == Codec::lz4 ||
           codec == Codec::zstd;
}

long unpack(Codec codec, const void* in, size_t in_size, void* out, size_t out_size) {
    switch (codec) {
        case Codec::zstd:
            return unpack_zstd(in, in_size, out, out_size);
        case Codec::gzip:
            return unpack_gzip(in, in_size, out, out_size);
        case Codec::lz4:
            return unpack_lz4(in, in_size, out, out_size);
        case Codec::xz:
            return unpack_xz(in, in_size, out, out_size);
        case Codec::lzo:
            return unpack_lzo(in, in_size, out, out_size);
        case Codec::none:
        case Codec::lzma:
            break;
    }
    return -1;
}

}  // namespace berth::squash
