#include "runtime/pull/share/pieces.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::pull::share {

static_assert(std::endian::native == std::endian::little, "heads of pieces are written as they lie in memory");

Fd descriptor_of(int file, const std::string& what) {
    Fd out(::fcntl(file, F_DUPFD_CLOEXEC, 3));
    if (!out) throw SysError(cat("opening ", what, " once more"));
    return out;
}

PieceSum sum_of_piece(std::string_view bytes) {
    return oci::sha256_bytes(bytes);
}

std::array<char, PieceHead::wire_size> encode(const PieceHead& head) {
    std::array<char, PieceHead::wire_size> out;
    std::memcpy(out.data(), &head.index, 4);
    std::memcpy(out.data() + 4, &head.size, 4);
    std::memcpy(out.data() + 8, head.sum.data(), head.sum.size());
    std::memcpy(out.data() + 40, &head.ahead, 4);
    return out;
}

std::optional<PieceHead> parse_piece_head(std::string_view bytes) {
    PieceHead head;
    if (bytes.size() != PieceHead::wire_size) return std::nullopt;
    std::memcpy(&head.index, bytes.data(), 4);
    std::memcpy(&head.size, bytes.data() + 4, 4);
    std::memcpy(head.sum.data(), bytes.data() + 8, head.sum.size());
    std::memcpy(&head.ahead, bytes.data() + 40, 4);
    bool is_word = head.index >= PieceHead::gone;
    if (is_word ? head.size != 0 : head.size == 0 || head.size > piece_size) return std::nullopt;
    return head;
}

uint32_t piece_at(unsigned stripe, uint32_t place) { return 2 * place + (stripe == 0 ? 2 : 1); }

std::optional<uint32_t> piece_at(unsigned stripe, uint32_t place, uint32_t pieces) {
    uint32_t index = piece_at(stripe, place);
    if (index < pieces) return index;
    // Behind the last even one.
    bool is_first = stripe == 0 && pieces > 0 && place == (pieces - 1) / 2;
    return is_first ? std::optional<uint32_t>(0) : std::nullopt;
}

void GrowingLayer::lie_in(Fd file) {
    std::lock_guard lock(mutex_);
    file_ = std::make_shared<Fd>(std::move(file));
    heads_.clear();
    counts_ = {};
    given_up_ = false;
}

void GrowingLayer::add(uint32_t index, uint32_t size, const PieceSum& sum) {
    std::lock_guard lock(mutex_);
    if (heads_.size() <= index) heads_.resize(index + 1);
    if (heads_[index]) return;
    heads_[index] = PieceHead{index, size, sum};
    ++counts_[index % stripe_count];
    changed_.notify_all();
}

void GrowingLayer::seal(uint64_t size, const Digest& pieces) {
    std::lock_guard lock(mutex_);
    sealed_ = SealedAs{size, pieces};
    changed_.notify_all();
}

void GrowingLayer::give_up() {
    std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
}

bool GrowingLayer::is_given_up() const {
    std::lock_guard lock(mutex_);
    return given_up_;
}

std::optional<GrowingLayer::SealedAs> GrowingLayer::sealed() const {
    std::lock_guard lock(mutex_);
    return sealed_;
}

uint32_t GrowingLayer::count(unsigned stripe) const {
    std::lock_guard lock(mutex_);
    return counts_[stripe];
}

bool GrowingLayer::has_stripe(unsigned stripe) const {
    std::lock_guard lock(mutex_);
    return sealed_ && !piece_at(stripe, counts_[stripe], pieces_in(sealed_->size));
}

bool GrowingLayer::wait_for_seal(std::chrono::milliseconds patience) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return sealed_ || given_up_; });
    return sealed_.has_value();
}

Digest GrowingLayer::sum_of_sums() const {
    std::lock_guard lock(mutex_);
    oci::Sha256 hash;
    for (const auto& head : heads_)
        if (head) hash.update({reinterpret_cast<const char*>(head->sum.data()), head->sum.size()});
    return hash.finish();
}

std::optional<PieceHead> GrowingLayer::head_at(unsigned stripe, uint32_t place) const {
    uint32_t index = piece_at(stripe, place);
    if (sealed_) {
        auto known = piece_at(stripe, place, pieces_in(sealed_->size));
        if (!known) return PieceHead{PieceHead::complete};
        index = *known;
    }
    if (index < heads_.size() && heads_[index]) return heads_[index];
    return given_up_ ? std::optional(PieceHead{PieceHead::gone}) : std::nullopt;
}

PieceHead GrowingLayer::wait_for(unsigned stripe, uint32_t place, std::chrono::milliseconds patience) const {
    std::unique_lock lock(mutex_);
    std::optional<PieceHead> head;
    changed_.wait_for(lock, patience, [&] { return (head = head_at(stripe, place)).has_value(); });
    if (!head) return {PieceHead::waiting};
    if (counts_[stripe] > place + 1) head->ahead = counts_[stripe] - place - 1;
    return *head;
}

size_t GrowingLayer::read(const PieceHead& head, uint32_t offset, char* out, size_t size) const {
    size = std::min<size_t>(size, head.size - offset);
    std::string what = cat("layer ", diff_id_);
    uint64_t at = uint64_t{head.index} * piece_size + offset;
    std::unique_lock lock(mutex_);
    std::shared_ptr<Fd> file = file_;
    lock.unlock();
    if (!sys::pread_exact(file->get(), std::span(out, size), at, what)) throw SysError(cat("reading ", what), EIO);
    return size;
}

PiecePump::PiecePump(GrowingLayer& layer, Fd file, std::string what)
    : layer_(layer), file_(std::move(file)), what_(std::move(what)), buffer_(piece_size) {
    layer_.lie_in(descriptor_of(file_.get(), what_));
    thread_ = std::thread([this] { work(); });
}

PiecePump::~PiecePump() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    if (!is_done_) layer_.give_up();
}

void PiecePump::note(uint64_t final_bytes) {
    std::lock_guard lock(mutex_);
    if (final_bytes <= final_) return;
    final_ = final_bytes;
    changed_.notify_all();
}

void PiecePump::make(uint32_t index, uint64_t end) {
    uint64_t start = uint64_t{index} * piece_size;
    std::span<char> bytes = std::span(buffer_).first(std::min<uint64_t>(piece_size, end - start));
    if (!sys::pread_exact(file_.get(), bytes, start, what_)) throw SysError(cat("reading ", what_), EIO);
    layer_.add(index, static_cast<uint32_t>(bytes.size()), sum_of_piece({bytes.data(), bytes.size()}));
}

void PiecePump::work() {
    try {
        for (std::unique_lock lock(mutex_);; ++next_) {
            uint64_t end = (uint64_t{next_} + 1) * piece_size;
            changed_.wait(lock, [&] { return ended_ || final_ >= end; });
            if (ended_) return;
            lock.unlock();
            make(next_, end);
            lock.lock();
        }
    } catch (...) {
        failure_ = std::current_exception();
    }
}

void PiecePump::finish() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    auto size = static_cast<uint64_t>(sys::stat_of(file_.get(), what_).st_size);
    for (; next_ < pieces_in(size); ++next_) {
        if (layer_.is_given_up()) throw Error(cat("reading ", what_, ": stopped"));
        make(next_, size);
    }
    make(0, size);
    layer_.seal(size, layer_.sum_of_sums());
    is_done_ = true;
}

}  // namespace berth::pull::share
