#include "runtime/image/decompress.hh"

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::image {

namespace {

constexpr size_t output_size = 256 * 1024;
constexpr int zstd_window_log = 27;  // 128 MiB, what `zstd -d` accepts without being asked

class GzipDecompressor : public Decompressor {
  public:
    explicit GzipDecompressor(ByteSink sink) : sink_(std::move(sink)), state_(std::make_unique<inflate_state>()), output_(output_size) {
        isal_inflate_init(state_.get());
    }

    void feed(const void* data, size_t size) override {
        auto* bytes = static_cast<const uint8_t*>(data);
        for (size_t part; size > 0; bytes += part, size -= part) {
            part = std::min<size_t>(size, 1 << 30);  // the library counts in 32 bits
            feed_part(bytes, static_cast<uint32_t>(part));
        }
    }

    void finish() override {
        if (members_ == 0 || inside_) throw Error("the gzip data is cut off");
    }

  private:
    void feed_part(const uint8_t* data, uint32_t size) {
        state_->next_in = const_cast<uint8_t*>(data);  // the library's interface lacks const
        state_->avail_in = size;
        do {
            if (!inside_) {
                if (state_->avail_in == 0) return;
                begin_member();
            }
            inflate_once();
        } while (!inside_ || state_->avail_in > 0 || state_->avail_out == 0);
    }

    void begin_member() {
        uint8_t* next = state_->next_in;
        if (members_ > 0 && *next != 0x1F) throw Error("the gzip data is followed by bytes that are no gzip data");
        uint32_t available = state_->avail_in;
        isal_inflate_reset(state_.get());
        state_->crc_flag = ISAL_GZIP;  // the library reads the header and verifies the trailer
        state_->next_in = next;
        state_->avail_in = available;
        inside_ = true;
    }

    void inflate_once() {
        uint32_t before = state_->avail_in;
        state_->next_out = output_.data();
        state_->avail_out = static_cast<uint32_t>(output_.size());
        int result = isal_inflate(state_.get());
        size_t made = output_.size() - state_->avail_out;
        if (result < 0 || result == ISAL_NEED_DICT) refuse(result);
        if (made > 0) sink_(output_.data(), made);
        if (state_->block_state == ISAL_BLOCK_FINISH) {
            inside_ = false;
            ++members_;
        } else if (made == 0 && before > 0 && state_->avail_in == before) {
            refuse(result);
        }
    }

    [[noreturn]] void refuse(int result) const {
        if (result == ISAL_INCORRECT_CHECKSUM) throw Error("the gzip data is damaged: its checksum is wrong");
        throw Error(cat("the gzip data is damaged (igzip error ", result, ")"));
    }

    ByteSink sink_;
    std::unique_ptr<inflate_state> state_;
    std::vector<uint8_t> output_;
    bool inside_ = false;  // a member has begun and not ended
    uint64_t members_ = 0;
};

class ZstdDecompressor : public Decompressor {
  public:
    explicit ZstdDecompressor(ByteSink sink) : sink_(std::move(sink)), context_(ZSTD_createDCtx()), output_(output_size) {
        if (!context_) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, zstd_window_log);
    }

    void feed(const void* data, size_t size) override {
        ZSTD_inBuffer in{data, size, 0};
        bool full = false;
        while (in.pos < in.size || full) {
            ZSTD_outBuffer out{output_.data(), output_.size(), 0};
            left_ = ZSTD_decompressStream(context_.get(), &out, &in);
            if (ZSTD_isError(left_)) throw Error(cat("the zstd data is damaged or asks for too much: ", ZSTD_getErrorName(left_)));
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
    explicit DetectingDecompressor(ByteSink sink) : sink_(std::move(sink)) {}

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
        // Skippable frames of zstd begin with 0x184D2A50 to 0x184D2A5F, little endian (RFC 8878).
        bool skippable = start.size() >= magic_size && (static_cast<uint8_t>(start[0]) & 0xF0) == 0x50 && start.substr(1, 3) == "\x2A\x4D\x18";
        if (start.starts_with("\x1F\x8B"))
            chosen_ = make_gzip_decompressor(std::move(sink_));
        else if (start.starts_with("\x28\xB5\x2F\xFD") || skippable)
            chosen_ = make_zstd_decompressor(std::move(sink_));
        else
            chosen_ = std::make_unique<PlainData>(std::move(sink_));
        chosen_->feed(start_.data(), start_.size());
        start_ = {};
    }

    ByteSink sink_;
    std::string start_;
    std::unique_ptr<Decompressor> chosen_;
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor(ByteSink sink) {
    return std::make_unique<GzipDecompressor>(std::move(sink));
}
std::unique_ptr<Decompressor> make_zstd_decompressor(ByteSink sink) {
    return std::make_unique<ZstdDecompressor>(std::move(sink));
}
std::unique_ptr<Decompressor> make_decompressor(ByteSink sink) {
    return std::make_unique<DetectingDecompressor>(std::move(sink));
}

}  // namespace berth::image
