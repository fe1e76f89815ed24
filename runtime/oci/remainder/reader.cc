#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/remainder/remainder.hh"

namespace berth::oci {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(cat("the remainder of a tar stream ", why)); }

}  // namespace

struct RemainderReader::Impl {
    enum class State { kind, bytes, offset, path_size, path, end };

    Impl(RemainderSink sink_of_all, uint64_t size_limit)
        : sink(std::move(sink_of_all)), limit(size_limit), unpacker(make_zstd_decompressor([this](auto bytes) {
              take(bytes);
          })) {}

    void take(std::string_view bytes) {
        while (!bytes.empty()) bytes.remove_prefix(step(bytes));
    }

    /// Handles what the state wants of the next bytes; how many that were (at least one).
    size_t step(std::string_view bytes) {
        if (state == State::end) refuse("goes on after its end");
        if (state == State::bytes) return step_bytes(bytes);
        if (state == State::path) return step_path(bytes);
        take_digit(static_cast<uint8_t>(bytes[0]));
        return 1;
    }

    size_t step_bytes(std::string_view bytes) {
        size_t size = std::min<uint64_t>(bytes.size(), left);
        sink.bytes(bytes.substr(0, size));
        if ((left -= size) == 0) state = State::kind;
        return size;
    }

    size_t step_path(std::string_view bytes) {
        size_t size = std::min<uint64_t>(bytes.size(), left);
        part.path += bytes.substr(0, size);
        if ((left -= size) > 0) return size;
        state = State::kind;
        sink.part(part);
        return size;
    }

    void take_digit(uint8_t digit) {
        if (shift > 63 || (shift == 63 && (digit & 0x7E) != 0)) refuse("has a number that is too large");
        number |= static_cast<uint64_t>(digit & 0x7F) << shift;
        shift += 7;
        if ((digit & 0x80) != 0) return;
        uint64_t whole = number;
        number = 0;
        shift = 0;
        take_number(whole);
    }

    void take_number(uint64_t whole) {
        switch (state) {
            case State::kind:
                return begin(whole >> 1, (whole & 1) != 0);
            case State::offset:
                if (whole > INT64_MAX - part.size) refuse("names a place in a file that none can have");
                part.offset = whole;
                state = State::path_size;
                return;
            default:
                if (whole == 0 || whole > remainder_path_limit) refuse("has a path that none can be");
                left = whole;
                state = State::path;
        }
    }

    void begin(uint64_t size, bool is_part) {
        if (size > limit - total) refuse(cat("stands for more than ", human_bytes(limit)));
        total += size;
        if (is_part && size == 0) refuse("names no bytes of a file");
        if (is_part) {
            part = {"", 0, size};
            state = State::offset;
        } else {
            left = size;
            state = size == 0 ? State::end : State::bytes;
        }
    }

    RemainderSink sink;
    uint64_t limit;
    uint64_t total = 0;
    State state = State::kind;
    uint64_t number = 0;  ///< so far
    unsigned shift = 0;
    uint64_t left = 0;    ///< of the bytes, or of the path
    FilePart part;
    std::unique_ptr<Decompressor> unpacker;
};

RemainderReader::RemainderReader(RemainderSink sink, uint64_t limit)
    : impl_(std::make_unique<Impl>(std::move(sink), limit)) {}
RemainderReader::~RemainderReader() = default;

void RemainderReader::feed(std::string_view packed) { impl_->unpacker->feed(packed); }

void RemainderReader::finish() {
    impl_->unpacker->finish();
    if (impl_->state != Impl::State::end) refuse("is cut off");
}

}  // namespace berth::oci
