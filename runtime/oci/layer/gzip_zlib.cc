// gzip by zlib, which is everywhere.
#include <zlib.h>

#include <algorithm>
#include <new>
#include <string_view>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/gzip.hh"

namespace berth::oci {

namespace {

/// zlib.h: the largest window, and 16 more for "gzip, and nothing else".
constexpr int gzip_window = 15 + 16;

class ZlibDecompressor : public Decompressor {
  public:
    explicit ZlibDecompressor(Sink sink) : sink_(std::move(sink)), output_(decompressor_output_size) {
        if (::inflateInit2(&stream_, gzip_window) != Z_OK) throw std::bad_alloc();
    }
    ~ZlibDecompressor() override { ::inflateEnd(&stream_); }
    ZlibDecompressor(const ZlibDecompressor&) = delete;
    ZlibDecompressor& operator=(const ZlibDecompressor&) = delete;

    void feed(std::string_view data) override {
        constexpr size_t part = 1 << 30;  // the library counts in 32 bits
        for (; !data.empty(); data.remove_prefix(std::min(part, data.size()))) feed_part(data.substr(0, part));
    }

    void finish() override {
        if (!is_at_end()) throw Error("the gzip data is cut off");
    }
    bool is_at_end() const override { return members_ > 0 && !inside_; }

  private:
    void feed_part(std::string_view data) {
        // The library's interface lacks const.
        stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(data.data()));
        stream_.avail_in = static_cast<uInt>(data.size());
        do {
            if (!inside_) {
                if (stream_.avail_in == 0) return;
                begin_member();
            }
            inflate_once();
        } while (!inside_ || stream_.avail_in > 0 || stream_.avail_out == 0);
    }

    void begin_member() {
        if (members_ > 0 && *stream_.next_in != 0x1F)
            throw Error("the gzip data is followed by bytes that are no gzip data");
        ::inflateReset(&stream_);
        inside_ = true;
    }

    void inflate_once() {
        stream_.next_out = output_.data();
        stream_.avail_out = static_cast<uInt>(output_.size());
        int result = ::inflate(&stream_, Z_NO_FLUSH);
        size_t made = output_.size() - stream_.avail_out;
        // Z_BUF_ERROR: all that there was has been used.
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) refuse(result);
        if (made > 0) sink_({reinterpret_cast<const char*>(output_.data()), made});
        if (result != Z_STREAM_END) return;
        inside_ = false;
        ++members_;
    }

    [[noreturn]] void refuse(int result) const {
        if (result == Z_MEM_ERROR) throw std::bad_alloc();
        std::string_view reason = stream_.msg == nullptr ? "" : stream_.msg;
        if (reason == "incorrect data check" || reason == "incorrect length check")
            throw Error("the gzip data is damaged: its checksum is wrong");
        throw Error(
            cat("the gzip data is damaged (zlib: ", reason.empty() ? cat("error ", result) : std::string(reason), ")"));
    }

    Sink sink_;
    z_stream stream_{};
    std::vector<Bytef> output_;
    bool inside_ = false;  // a member has begun and not ended
    uint64_t members_ = 0;
};

}  // namespace

std::unique_ptr<Decompressor> make_zlib_decompressor(Sink sink) {
    return std::make_unique<ZlibDecompressor>(std::move(sink));
}

}  // namespace berth::oci
