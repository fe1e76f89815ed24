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
#include "runtime/oci/packing.hh"

namespace berth::oci {

namespace {

/// Of the data that `codec` packed, by the reason that its library gives.
[[noreturn]] void refuse_damaged(const char* codec, std::string_view why) {
    throw Error(cat("the ", codec, " data is damaged or asks for too much: ", why));
}

[[noreturn]] void refuse_cut_off(const char* codec) { throw Error(cat("the ", codec, " data is cut off")); }

constexpr int zstd_window_log = 27;  // 128 MiB, what `zstd -d` accepts without being asked

class ZstdDecompressor : public Decompressor {
  public:
    explicit ZstdDecompressor(Sink sink)
        : sink_(std::move(sink)), context_(ZSTD_createDCtx()), output_(decompressor_output_size) {
        if (!context_) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, zstd_window_log);
    }

    void feed(std::string_view data) override {
        ZSTD_inBuffer in{data.data(), data.size(), 0};
        bool full = false;
        while (in.pos < in.size || full) {
            ZSTD_outBuffer out{output_.data(), output_.size(), 0};
            left_ = ZSTD_decompressStream(context_.get(), &out, &in);
            if (ZSTD_isError(left_)) refuse_damaged("zstd", ZSTD_getErrorName(left_));
            if (out.pos > 0) sink_({output_.data(), out.pos});
            full = out.pos == out.size && left_ != 0;
        }
    }

    void finish() override {
        if (left_ != 0) refuse_cut_off("zstd");
    }

  private:
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    Sink sink_;
    std::unique_ptr<ZSTD_DCtx, Free> context_;
    std::vector<char> output_;
    size_t left_ = 1;  // 0 exactly between frames
};

class PlainData : public Decompressor {
  public:
    explicit PlainData(Sink sink) : sink_(std::move(sink)) {}
    void feed(std::string_view data) override {
        if (!data.empty()) sink_(data);
    }
    void finish() override {}

  private:
    Sink sink_;
};

class DetectingDecompressor : public Decompressor {
  public:
    DetectingDecompressor(Sink sink, GzipEngine engine) : sink_(std::move(sink)), engine_(engine) {}

    void feed(std::string_view data) override {
        if (chosen_) return chosen_->feed(data);
        start_ += data;
        if (start_.size() >= longest_mark) choose();
    }

    void finish() override {
        if (!chosen_) choose();
        chosen_->finish();
    }

  private:
    std::unique_ptr<Decompressor> engine_of(Packing packing) {
        switch (packing) {
            case Packing::gzip:
                return make_gzip_decompressor(std::move(sink_), engine_);
            case Packing::zstd:
                return make_zstd_decompressor(std::move(sink_));
            case Packing::plain:
                break;
        }
        return std::make_unique<PlainData>(std::move(sink_));
    }

    void choose() {
        chosen_ = engine_of(packing_of(start_));
        chosen_->feed(start_);
        start_ = {};
    }

    Sink sink_;
    GzipEngine engine_;
    std::string start_;
    std::unique_ptr<Decompressor> chosen_;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(Sink sink) {
    return std::make_unique<ZstdDecompressor>(std::move(sink));
}
std::unique_ptr<Decompressor> make_decompressor(Sink sink, GzipEngine engine) {
    return std::make_unique<DetectingDecompressor>(std::move(sink), engine);
}

}  // namespace berth::oci
