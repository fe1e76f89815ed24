#include "runtime/oci/layer/decompress.hh"

#include <zstd.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/gzip.hh"

namespace berth::oci {

namespace {

constexpr int zstd_window_log = 27;  // 128 MiB, what `zstd -d` accepts without being asked

class ZstdDecompressor : public Decompressor {
  public:
    explicit ZstdDecompressor(ByteSink sink)
        : sink_(std::move(sink)), context_(ZSTD_createDCtx()), output_(decompressor_output_size) {
        if (!context_) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, zstd_window_log);
    }

    void feed(const void* data, size_t size) override {
        ZSTD_inBuffer in{data, size, 0};
        bool full = false;
        while (in.pos < in.size || full) {
            ZSTD_outBuffer out{output_.data(), output_.size(), 0};
            left_ = ZSTD_decompressStream(context_.get(), &out, &in);
            if (ZSTD_isError(left_))
                throw Error(cat("the zstd data is damaged or asks for too much: ", ZSTD_getErrorName(left_)));
            if (out.pos > 0) sink_(output_.data(), out.pos);
            full = out.pos == out.size && left_ != 0;
        }
    }

    void finish() override {
        if (left_ != 0) throw Error("the zstd data is cut off");
    }

  private:
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    ByteSink sink_;
    std::unique_ptr<ZSTD_DCtx, Free> context_;
    std::vector<char> output_;
    size_t left_ = 1;  // 0 exactly between frames
};

class PlainData : public Decompressor {
  public:
    explicit PlainData(ByteSink sink) : sink_(std::move(sink)) {}
    void feed(const void* data, size_t size) override {
        if (size > 0) sink_(data, size);
    }
    void finish() override {}

  private:
    ByteSink sink_;
};

class DetectingDecompressor : public Decompressor {
  public:
    DetectingDecompressor(ByteSink sink, GzipEngine engine) : sink_(std::move(sink)), engine_(engine) {}

    void feed(const void* data, size_t size) override {
        if (chosen_) return chosen_->feed(data, size);
        start_.append(static_cast<const char*>(data), size);
        if (start_.size() >= magic_size) choose();
    }

    void finish() override {
        if (!chosen_) choose();
        chosen_->finish();
    }

  private:
    static constexpr size_t magic_size = 4;

    void choose() {
        std::string_view start = start_;
        if (is_gzip(start))
            chosen_ = make_gzip_decompressor(std::move(sink_), engine_);
        else if (is_zstd(start))
            chosen_ = make_zstd_decompressor(std::move(sink_));
        else
            chosen_ = std::make_unique<PlainData>(std::move(sink_));
        chosen_->feed(start_.data(), start_.size());
        start_ = {};
    }

    ByteSink sink_;
    GzipEngine engine_;
    std::string start_;
    std::unique_ptr<Decompressor> chosen_;
};

}  // namespace

bool is_gzip(std::string_view start) { return start.starts_with("\x1F\x8B"); }

bool is_zstd(std::string_view start) {
    // Skippable frames begin with 0x184D2A50 to 0x184D2A5F, little endian (RFC 8878).
    bool skippable = start.size() >= 4 && (static_cast<uint8_t>(start[0]) & 0xF0) == 0x50 &&
                     start.substr(1, 3) == "\x2A\x4D\x18";
    return skippable || start.starts_with("\x28\xB5\x2F\xFD");
}

std::unique_ptr<Decompressor> make_zstd_decompressor(ByteSink sink) {
    return std::make_unique<ZstdDecompressor>(std::move(sink));
}
std::unique_ptr<Decompressor> make_decompressor(ByteSink sink) {
    return make_decompressor(std::move(sink), best_gzip_engine());
}
std::unique_ptr<Decompressor> make_decompressor(ByteSink sink, GzipEngine engine) {
    return std::make_unique<DetectingDecompressor>(std::move(sink), engine);
}

}  // namespace berth::oci
