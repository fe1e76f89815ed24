#include <zstd.h>

#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/remainder/remainder.hh"

namespace berth::oci {

namespace {

constexpr int level = 9;  // headers of tar are small and alike; 15 gains a twentieth and takes three times as long
constexpr size_t largest_piece = 64 << 10;

void put_number(std::string& out, uint64_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>(number | 0x80);
    out += static_cast<char>(number);
}

class Packer {
  public:
    explicit Packer(Sink sink) : sink_(std::move(sink)), context_(ZSTD_createCStream()), out_(ZSTD_CStreamOutSize()) {
        if (!context_) throw Error("packing the remainder of a layer: out of memory");
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
        ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
    }
    void feed(std::string_view bytes) { pack(bytes, ZSTD_e_continue); }
    void finish() { pack({}, ZSTD_e_end); }

  private:
    void pack(std::string_view bytes, ZSTD_EndDirective how) {
        ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
        for (size_t left = 1; in.pos < in.size || (how == ZSTD_e_end && left > 0);) {
            ZSTD_outBuffer out{out_.data(), out_.size(), 0};
            left = ZSTD_compressStream2(context_.get(), &out, &in, how);
            if (ZSTD_isError(left)) throw Error(cat("packing the remainder of a layer: ", ZSTD_getErrorName(left)));
            if (out.pos > 0) sink_({out_.data(), out.pos});
        }
    }
    struct Free {
        void operator()(ZSTD_CStream* context) const { ZSTD_freeCStream(context); }
    };

    Sink sink_;
    std::unique_ptr<ZSTD_CStream, Free> context_;
    std::vector<char> out_;
};

}  // namespace

struct RemainderWriter::Impl {
    explicit Impl(Sink packed) : packer(std::move(packed)) {}

    void flush() {
        flush_bytes();
        flush_part();
    }
    void flush_bytes() {
        if (bytes.empty()) return;
        std::string head;
        put_number(head, bytes.size() << 1);
        packer.feed(head);
        packer.feed(bytes);
        bytes.clear();
    }
    void flush_part() {
        if (part.size == 0) return;
        std::string record;
        put_number(record, part.size << 1 | 1);
        put_number(record, part.offset);
        put_number(record, part.path.size());
        packer.feed(record + part.path);
        part = {};
    }

    Packer packer;
    std::string bytes;  ///< one of the two is empty
    FilePart part;
};

RemainderWriter::RemainderWriter(Sink packed) : impl_(std::make_unique<Impl>(std::move(packed))) {}
RemainderWriter::~RemainderWriter() = default;

void RemainderWriter::add_bytes(std::string_view bytes) {
    impl_->flush_part();
    impl_->bytes += bytes;
    if (impl_->bytes.size() >= largest_piece) impl_->flush_bytes();
}

void RemainderWriter::add_part(const std::string& path, uint64_t offset, uint64_t size) {
    impl_->flush_bytes();
    FilePart& part = impl_->part;
    bool goes_on = part.size > 0 && part.path == path && part.offset + part.size == offset;
    if (!goes_on) {
        impl_->flush_part();
        part = {path, offset, 0};
    }
    part.size += size;
}

void RemainderWriter::finish() {
    impl_->flush();
    std::string end;
    put_number(end, 0);
    impl_->packer.feed(end);
    impl_->packer.finish();
}

}  // namespace berth::oci
