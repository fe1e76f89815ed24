#include "runtime/pull/nodes/chunks/growing_layer.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/protocol/request_path.hh"

namespace berth::pull::nodes {

namespace {

/// One answer.
class StripeStream : public ChunkStream {
  public:
    StripeStream(const GrowingLayer& layer, const LayerPath& from)
        : layer_(layer), stripe_(from.stripe), place_(from.place) {}

  protected:
    ChunkHead next() override {
        ChunkHead out = layer_.wait_for(stripe_, place_, word_time);
        if (out.size > 0) ++place_;
        return out;
    }
    size_t read(const ChunkHead& head, uint32_t done, char* out, size_t size) override {
        return layer_.read(head, done, out, size);
    }

  private:
    const GrowingLayer& layer_;
    unsigned stripe_;
    uint32_t place_;
};

}  // namespace

Fd descriptor_of(int file, const std::string& what) {
    Fd out(::fcntl(file, F_DUPFD_CLOEXEC, 3));
    if (!out) throw SysError(cat("opening ", what, " once more"));
    return out;
}

uint32_t chunk_at(unsigned stripe, uint32_t place) { return 2 * place + (stripe == 0 ? 2 : 1); }

std::optional<uint32_t> chunk_at(unsigned stripe, uint32_t place, uint32_t chunks) {
    uint32_t index = chunk_at(stripe, place);
    if (index < chunks) return index;
    // Behind the last even one.
    bool is_first = stripe == 0 && chunks > 0 && place == (chunks - 1) / 2;
    return is_first ? std::optional<uint32_t>(0) : std::nullopt;
}

std::unique_ptr<ChunkStream> GrowingLayer::answer(std::string_view path, std::string_view) const {
    auto from = parse_layer_path(path);
    return from ? std::make_unique<StripeStream>(*this, *from) : nullptr;
}

void GrowingLayer::lie_in(Fd file) {
    std::lock_guard lock(mutex_);
    file_ = std::make_shared<Fd>(std::move(file));
    heads_.clear();
    counts_ = {};
    given_up_ = false;
}

void GrowingLayer::add(uint32_t index, uint32_t size, const ChunkSum& sum) {
    std::lock_guard lock(mutex_);
    if (heads_.size() <= index) heads_.resize(index + 1);
    if (heads_[index]) return;
    heads_[index] = ChunkHead{.index = index, .size = size, .sum = sum};
    ++counts_[index % stripe_count];
    changed_.notify_all();
}

void GrowingLayer::complete(const LayerSum& sum) {
    std::lock_guard lock(mutex_);
    sum_ = sum;
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

std::optional<LayerSum> GrowingLayer::sum() const {
    std::lock_guard lock(mutex_);
    return sum_;
}

uint32_t GrowingLayer::count(unsigned stripe) const {
    std::lock_guard lock(mutex_);
    return counts_[stripe];
}

bool GrowingLayer::has_stripe(unsigned stripe) const {
    std::lock_guard lock(mutex_);
    return sum_ && !chunk_at(stripe, counts_[stripe], chunks_in(sum_->size));
}

bool GrowingLayer::wait_for_sum(std::chrono::milliseconds patience) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return sum_ || given_up_; });
    return sum_.has_value();
}

Digest GrowingLayer::sum_of_sums() const {
    std::lock_guard lock(mutex_);
    oci::Sha256 hash;
    for (const auto& head : heads_)
        if (head) hash.update({reinterpret_cast<const char*>(head->sum.data()), head->sum.size()});
    return hash.finish();
}

std::optional<ChunkHead> GrowingLayer::head_at(unsigned stripe, uint32_t place) const {
    uint32_t index = chunk_at(stripe, place);
    if (sum_) {
        auto known = chunk_at(stripe, place, chunks_in(sum_->size));
        if (!known) return ChunkHead{ChunkHead::complete};
        index = *known;
    }
    if (index < heads_.size() && heads_[index]) return heads_[index];
    return given_up_ ? std::optional(ChunkHead{ChunkHead::gone}) : std::nullopt;
}

ChunkHead GrowingLayer::wait_for(unsigned stripe, uint32_t place, std::chrono::milliseconds patience) const {
    std::unique_lock lock(mutex_);
    std::optional<ChunkHead> head;
    changed_.wait_for(lock, patience, [&] { return (head = head_at(stripe, place)).has_value(); });
    if (!head) return {ChunkHead::waiting};
    if (counts_[stripe] > place + 1) head->ahead = counts_[stripe] - place - 1;
    return *head;
}

size_t GrowingLayer::read(const ChunkHead& head, uint32_t offset, char* out, size_t size) const {
    size = std::min<size_t>(size, head.size - offset);
    std::string what = cat("layer ", diff_id_);
    uint64_t at = uint64_t{head.index} * chunk_size + offset;
    std::unique_lock lock(mutex_);
    std::shared_ptr<Fd> file = file_;
    lock.unlock();
    if (!sys::pread_exact(file->get(), std::span(out, size), at, what)) throw SysError(cat("reading ", what), EIO);
    return size;
}

ChunkPump::ChunkPump(GrowingLayer& layer, Fd file, std::string what)
    : layer_(layer), file_(std::move(file)), what_(std::move(what)), buffer_(chunk_size) {
    layer_.lie_in(descriptor_of(file_.get(), what_));
    thread_ = std::thread([this] { work(); });
}

ChunkPump::~ChunkPump() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    if (!is_done_) layer_.give_up();
}

void ChunkPump::note(uint64_t final_bytes) {
    std::lock_guard lock(mutex_);
    if (final_bytes <= final_) return;
    final_ = final_bytes;
    changed_.notify_all();
}

void ChunkPump::make(uint32_t index, uint64_t end) {
    uint64_t start = uint64_t{index} * chunk_size;
    std::span<char> bytes = std::span(buffer_).first(std::min<uint64_t>(chunk_size, end - start));
    if (!sys::pread_exact(file_.get(), bytes, start, what_)) throw SysError(cat("reading ", what_), EIO);
    layer_.add(index, static_cast<uint32_t>(bytes.size()), sum_of_chunk({bytes.data(), bytes.size()}));
}

void ChunkPump::work() {
    try {
        for (std::unique_lock lock(mutex_);; ++next_) {
            uint64_t end = (uint64_t{next_} + 1) * chunk_size;
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

void ChunkPump::finish() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
        changed_.notify_all();
    }
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    auto size = static_cast<uint64_t>(sys::stat_of(file_.get(), what_).st_size);
    for (; next_ < chunks_in(size); ++next_) {
        if (layer_.is_given_up()) throw Error(cat("reading ", what_, ": stopped"));
        make(next_, size);
    }
    make(0, size);
    layer_.complete({size, layer_.sum_of_sums()});
    is_done_ = true;
}

}  // namespace berth::pull::nodes
