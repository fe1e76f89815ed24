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

constexpr int usual_window_log = 27;   // 128 MiB, what `zstd -d` accepts without being asked
constexpr int largest_window_log = 29;  // 512 MiB, the limit of podman's library

/// The start of a frame, up to what says how large its window is (RFC 8878, 3.1.1.1).
class FrameHead {
  public:
    /// Takes what it needs of `data`; how many bytes that were.
    size_t take(std::string_view data) {
        size_t before = bytes_.size();
        while (bytes_.size() < needed() && bytes_.size() - before < data.size()) bytes_ += data[bytes_.size() - before];
        return bytes_.size() - before;
    }
    bool is_whole() const { return bytes_.size() >= needed(); }
    const std::string& bytes() const { return bytes_; }

    /// Of a whole one; 0 for what is no frame with data.
    uint64_t window() const {
        if (!bytes_.starts_with(magic)) return 0;
        if (!is_single()) {
            unsigned exponent = byte(fixed) >> 3, mantissa = byte(fixed) & 7;
            uint64_t base = 1ULL << (10 + exponent);
            return base + base / 8 * mantissa;
        }
        uint64_t size = content_size() == 2 ? 256 : 0;
        size_t at = fixed + dictionary();
        for (size_t i = 0; i < content_size(); ++i) size += uint64_t{byte(at + i)} << (8 * i);
        return size;
    }

  private:
    static constexpr std::string_view magic = "\x28\xB5\x2F\xFD";
    static constexpr size_t fixed = 5;  // the magic and the descriptor

    uint8_t byte(size_t at) const { return static_cast<uint8_t>(bytes_[at]); }
    /// Of a frame whose window is as large as its content.
    bool is_single() const { return (byte(4) & 0x20) != 0; }
    size_t dictionary() const { return (1U << (byte(4) & 3)) >> 1; }
    size_t content_size() const { return byte(4) >> 6 == 0 ? (is_single() ? 1 : 0) : 1U << (byte(4) >> 6); }
    size_t needed() const {
        if (bytes_.size() < fixed || !bytes_.starts_with(magic)) return fixed;
        return fixed + (is_single() ? dictionary() + content_size() : 1);
    }

    std::string bytes_;
};

class ZstdDecompressor : public Decompressor {
  public:
    ZstdDecompressor(Sink sink, LargeWindows* windows)
        : sink_(std::move(sink)), windows_(windows), context_(ZSTD_createDCtx()), output_(decompressor_output_size) {
        if (!context_) throw std::bad_alloc();
        ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, usual_window_log);
    }

    void feed(std::string_view data) override {
        while (!data.empty()) {
            if (!is_in_frame_) {
                data.remove_prefix(head_.take(data));
                left_ = 1;
                if (!head_.is_whole()) return;
                begin_frame();
            } else {
                data.remove_prefix(decompress(data));
            }
        }
    }

  private:
    void begin_frame() {
        is_in_frame_ = true;
        if (uint64_t window = head_.window(); window > (1ULL << usual_window_log) && windows_ != nullptr) {
            if (!turn_) turn_ = windows_->take(window);
            ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, largest_window_log);
        }
        decompress(head_.bytes());
        head_ = {};
    }

    /// Up to the end of the frame; how many bytes that were.
    size_t decompress(std::string_view data) {
        ZSTD_inBuffer in{data.data(), data.size(), 0};
        bool full = false;
        while (in.pos < in.size || full) {
            ZSTD_outBuffer out{output_.data(), output_.size(), 0};
            left_ = ZSTD_decompressStream(context_.get(), &out, &in);
            if (ZSTD_isError(left_)) refuse_damaged("zstd", ZSTD_getErrorName(left_));
            if (out.pos > 0) sink_({output_.data(), out.pos});
            full = out.pos == out.size && left_ != 0;
            is_in_frame_ = left_ != 0;
            if (!is_in_frame_) break;
        }
        return in.pos;
    }

  public:
    void finish() override {
        if (left_ != 0) refuse_cut_off("zstd");
    }
    bool is_at_end() const override { return left_ == 0; }

  private:
    struct Free {
        void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
    };
    Sink sink_;
    LargeWindows* windows_;
    std::unique_lock<std::mutex> turn_;  // given back after the context
    FrameHead head_;
    bool is_in_frame_ = false;
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

constexpr std::string_view xz_mark("\xFD" "7zXZ\0", 6);
constexpr std::string_view bzip2_mark = "BZh1AY&SY";  // with the digit of the level between the third and the fourth

/// What docker and podman unpack as a layer, too, though no specification has it.
void refuse_other_packing(std::string_view start) {
    bool is_bzip2 = start.size() > bzip2_mark.size() && start.starts_with(bzip2_mark.substr(0, 3)) &&
                    start.substr(4, 6) == bzip2_mark.substr(3);
    if (start.starts_with(xz_mark) || is_bzip2)
        throw Error(cat("it is packed with ", is_bzip2 ? "bzip2" : "xz",
                        ", which layers are not read in; push the image again with layers of gzip or zstd"));
}

class DetectingDecompressor : public Decompressor {
  public:
    DetectingDecompressor(Sink sink, GzipEngine engine, LargeWindows* windows)
        : sink_(std::move(sink)), engine_(engine), windows_(windows) {}

    void feed(std::string_view data) override {
        if (chosen_) return chosen_->feed(data);
        start_ += data;
        if (start_.size() >= longest_start) choose();
    }

    void finish() override {
        if (!chosen_) choose();
        chosen_->finish();
    }
    bool is_at_end() const override { return chosen_ && chosen_->is_at_end(); }

  private:
    std::unique_ptr<Decompressor> engine_of(Packing packing) {
        switch (packing) {
            case Packing::gzip:
                return make_gzip_decompressor(std::move(sink_), engine_);
            case Packing::zstd:
                return make_zstd_decompressor(std::move(sink_), windows_);
            case Packing::plain:
                break;
        }
        return std::make_unique<PlainData>(std::move(sink_));
    }

    static constexpr size_t longest_start = std::max(longest_mark, bzip2_mark.size() + 1);

    void choose() {
        refuse_other_packing(start_);
        chosen_ = engine_of(packing_of(start_));
        chosen_->feed(start_);
        start_ = {};
    }

    Sink sink_;
    GzipEngine engine_;
    LargeWindows* windows_;
    std::string start_;
    std::unique_ptr<Decompressor> chosen_;
};

}  // namespace

void ZeroPadded::feed(std::string_view data) {
    size_t last = data.find_last_not_of('\0'), kept = last == data.npos ? 0 : last + 1;
    if (kept > 0) {
        feed_zeros();
        inner_.feed(data.substr(0, kept));
    }
    zeros_ += data.size() - kept;
}

void ZeroPadded::feed_zeros() {
    static constexpr char zeros[4096] = {};
    for (uint64_t part; zeros_ > 0; zeros_ -= part) {
        part = std::min<uint64_t>(zeros_, sizeof zeros);
        inner_.feed({zeros, part});
    }
}

void ZeroPadded::finish() {
    // The last bytes of the data itself may be zeros; with more of them than one block has, it is cut off.
    constexpr uint64_t longest_end = 256 * 1024;
    for (uint64_t i = 0; i < std::min(zeros_, longest_end) && !inner_.is_at_end(); ++i)
        inner_.feed(std::string_view("\0", 1));
    inner_.finish();
}

std::unique_lock<std::mutex> LargeWindows::take(uint64_t window) {
    constexpr uint64_t largest = 1ULL << largest_window_log;
    // What a pull takes beside it, at least: least_memory of pull/image/capacity.
    constexpr uint64_t beside = 48ULL << 20;
    if (window > largest)
        throw Error(cat("the zstd data asks for a window of ", human_bytes(window), ", the most is ",
                        human_bytes(largest), "; make it again with a lower level or without --long"));
    if (uint64_t needed = window + beside; needed > memory_)
        throw Error(cat("the zstd data asks for a window of ", human_bytes(window),
                        ", for which the memory of a pull has no room; set limits.pull_memory to \"",
                        (needed + (1 << 20) - 1) >> 20, "M\" or more"));
    return std::unique_lock(mutex_);
}

std::unique_ptr<Decompressor> make_zstd_decompressor(Sink sink, LargeWindows* windows) {
    return std::make_unique<ZstdDecompressor>(std::move(sink), windows);
}
std::unique_ptr<Decompressor> make_decompressor(Sink sink, GzipEngine engine, LargeWindows* windows) {
    return std::make_unique<DetectingDecompressor>(std::move(sink), engine, windows);
}

}  // namespace berth::oci
