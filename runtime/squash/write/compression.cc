#include "runtime/squash/write/compression.hh"

#include <new>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr unsigned zstd_default = 1;
constexpr unsigned gzip_default = 6;

/// Stores everything as it is: 0 is libsquashfs' word for "does not get smaller".
struct NoCompressor : sqfs_compressor_t {
    NoCompressor() : sqfs_compressor_t{} {
        base.destroy = [](sqfs_object_t* object) { delete reinterpret_cast<NoCompressor*>(object); };
        base.copy = [](const sqfs_object_t*) -> sqfs_object_t* {
            return reinterpret_cast<sqfs_object_t*>(new (std::nothrow) NoCompressor);
        };
        get_configuration = [](const sqfs_compressor_t*, sqfs_compressor_config_t* config) {
            *config = {};
            config->id = static_cast<sqfs_u16>(stored_codec(Codec::none));
        };
        write_options = [](sqfs_compressor_t*, sqfs_file_t*) { return 0; };
        read_options = [](sqfs_compressor_t*, sqfs_file_t*) { return 0; };
        do_block = [](sqfs_compressor_t*, const sqfs_u8*, sqfs_u32, sqfs_u8*, sqfs_u32) { return 0; };
    }
};

/// libsquashfs 1.2 takes what lz4 makes of a few bytes even when that is more, and unsquashfs refuses such a table.
void refuse_growth(sqfs_compressor_t& compressor) {
    static const auto original = compressor.do_block;  // one function for all compressors of the codec
    compressor.do_block = [](sqfs_compressor_t* self, const sqfs_u8* in, sqfs_u32 size, sqfs_u8* out, sqfs_u32 room) {
        sqfs_s32 packed = original(self, in, size, out, room);
        return packed >= 0 && static_cast<sqfs_u32>(packed) >= size ? 0 : packed;
    };
}

}  // namespace

Codec codec_of(plan::LayerCodec setting) {
    switch (setting) {
        case plan::LayerCodec::lz4: return Codec::lz4;
        case plan::LayerCodec::gzip: return Codec::gzip;
        case plan::LayerCodec::none: return Codec::none;
        default: return Codec::zstd;
    }
}

unsigned highest_level(Codec codec) {
    switch (codec) {
        case Codec::zstd: return 22;
        case Codec::lz4: return 12;
        case Codec::gzip: return 9;
        default: return 0;
    }
}

Codec stored_codec(Codec codec) { return codec == Codec::none ? Codec::gzip : codec; }

uint64_t compressor_memory(const Compression& compression) {
    constexpr uint64_t scratch = 128 << 10;
    switch (compression.codec) {
        case Codec::zstd: return scratch + (compression.level <= 2 ? 640ULL << 10 : 3ULL << 20);
        case Codec::none: return scratch;
        default: return scratch + (320ULL << 10);
    }
}

SqfsPtr<sqfs_compressor_t> make_compressor(const Compression& compression, uint32_t block_size) {
    if (compression.codec == Codec::none) return SqfsPtr<sqfs_compressor_t>(new NoCompressor);
    auto check = [](int code) {
        if (code != 0)
            throw Error(cat("setting up the compressor: libsquashfs error ", code,
                            "; is libsquashfs built without this codec?"));
    };
    sqfs_compressor_config_t config;
    check(sqfs_compressor_config_init(&config, static_cast<SQFS_COMPRESSOR>(compression.codec), block_size, 0));
    if (compression.codec == Codec::zstd) config.level = compression.level == 0 ? zstd_default : compression.level;
    if (compression.codec == Codec::gzip) config.level = compression.level == 0 ? gzip_default : compression.level;
    // libsquashfs knows two forms of lz4, the fast one and the best one.
    if (compression.codec == Codec::lz4 && compression.level > 0) config.flags |= SQFS_COMP_FLAG_LZ4_HC;
    sqfs_compressor_t* made = nullptr;
    check(sqfs_compressor_create(&config, &made));
    if (compression.codec == Codec::lz4) refuse_growth(*made);
    return SqfsPtr<sqfs_compressor_t>(made);
}

}  // namespace berth::squash
