#include "runtime/pull/nodes/peer/receive.hh"

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/nodes/peer/chunk_client.hh"
#include "runtime/pull/nodes/protocol/request_path.hh"

namespace berth::pull::nodes {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// A source that has sent chunks is asked so many times more when a connection fails. On a busy link packets are lost
/// again and again, until a connection waits for seconds, and a new one does not.
constexpr unsigned more_tries = 2;
constexpr auto sum_patience = seconds(10);
constexpr unsigned most_doublings = 6;  ///< of ReceiveSettings::back

/// One stripe of one layer, from one source after the other. For one thread.
class StripeReceiver {
  public:
    StripeReceiver(GrowingLayer& layer, unsigned stripe, int file, SourceList& sources,
                   const ReceiveSettings& settings)
        : layer_(layer), stripe_(stripe), file_(file), sources_(sources), settings_(settings) {}

    void run();

  private:
    /// Empty when the source has sent all that it has to; else why it is left.
    std::string take_from(const SourcePeer& source);
    void take_chunk(const ChunkHead& head, std::string_view bytes);
    bool should_leave(const ChunkReader& reader);
    bool should_try_again();
    bool has_other_source();
    bool is_over() const { return (settings_.stop != nullptr && *settings_.stop) || settings_.is_over(); }
    void check_over() const;
    void await_sum() const;

    GrowingLayer& layer_;
    const unsigned stripe_;
    const int file_;
    SourceList& sources_;
    const ReceiveSettings& settings_;
    ChunkClient client_;
    std::string key_;       ///< of the source
    std::string proven_;    ///< key of the last one that has sent a chunk
    unsigned tries_ = 0;    ///< of that one, since its last chunk
    bool is_lost_ = false;  ///< the connection failed, and nothing is wrong with what came
    bool is_gone_ = false;  ///< the source has said that it will not get the layer
    unsigned version_ = 0;  ///< of the list in which it is the current one
    bool is_moved_ = false; ///< the tracker has named another source
    bool is_starved_ = false;
    std::optional<Clock::time_point> went_on_;  ///< when a source was left with which nothing was wrong
    bool goes_back_ = false;
    unsigned returns_ = 0;
};

void StripeReceiver::check_over() const {
    if (settings_.stop != nullptr && *settings_.stop)
        throw Error(cat("receiving layer ", layer_.diff_id(), ": stopped"));
    if (settings_.is_over()) throw NotShared("the layer is not to be received any more");
    if (auto sum = layer_.sum(); sum && sum->size > settings_.limit)
        throw NotShared(cat("its owner says that it has ", human_bytes(sum->size), ", more than can be made of it"));
}

void StripeReceiver::await_sum() const {
    for (auto end = Clock::now() + sum_patience; !layer_.wait_for_sum(milliseconds(100));) {
        check_over();
        if (Clock::now() > end) throw NotShared("nobody says how large the layer is");
    }
}

void StripeReceiver::run() {
    auto last_chunk = Clock::now();
    for (uint32_t had = 0; !layer_.has_stripe(stripe_);) {
        check_over();
        // Of both stripes: as long as one comes, the other one's sources may only be late.
        uint32_t has = layer_.count(0) + layer_.count(1);
        if (std::exchange(had, has) != has) last_chunk = Clock::now();
        if (Clock::now() - last_chunk > settings_.patience) throw NotShared("no chunk of it comes");
        auto source = sources_.current(stripe_);
        if (!source) {
            std::this_thread::sleep_for(milliseconds(50));
            continue;
        }
        uint32_t before = layer_.count(stripe_);
        std::string problem = take_from(*source);
        if (goes_back_) sources_.begin_again(stripe_, *source), returns_ = std::min(returns_ + 1, most_doublings);
        if (is_moved_ || goes_back_) {
            went_on_.reset();
            continue;
        }
        if (problem.empty()) {
            await_sum();
            if (layer_.has_stripe(stripe_)) return;
            problem = "it has fewer chunks than the layer";
        }
        if (is_over() || should_try_again()) continue;
        if (!is_starved_ && !is_gone_) settings_.complain(*source, is_lost_ ? Fault::silent : Fault::wrong, problem);
        if (is_starved_ || is_lost_) went_on_ = Clock::now();
        if (is_gone_ && settings_.will_not_have) settings_.will_not_have(*source);
        sources_.pass_over(stripe_, *source);
        // Whoever has just failed is not asked again at once where there is nobody else.
        if (layer_.count(stripe_) == before) std::this_thread::sleep_for(milliseconds(is_gone_ ? 250 : 50));
    }
}

bool StripeReceiver::should_try_again() {
    if (!is_lost_ || key_ != proven_ || ++tries_ > more_tries) return false;
    std::this_thread::sleep_for(milliseconds(50));
    return true;
}

std::string StripeReceiver::take_from(const SourcePeer& source) {
    is_moved_ = is_starved_ = is_lost_ = is_gone_ = goes_back_ = false;
    key_ = source.peer.key;
    ChunkReader reader({.size_of = [](const ChunkHead& head) -> std::optional<uint32_t> {
                            if (head.offset != 0 || head.size > chunk_size) return std::nullopt;
                            return head.size;
                        },
                        .whole = [this](const ChunkHead& head, std::string_view bytes) { take_chunk(head, bytes); },
                        .head = [this](const ChunkHead& head) {
                            settings_.behind(stripe_, uint64_t{head.ahead} * chunk_size);
                        }});
    auto answer = client_.get({.peer = source.peer,
                               .path = text_of(LayerPath{layer_.name(), stripe_, layer_.count(stripe_)}),
                               .token = settings_.token,
                               .should_leave = [&] { return should_leave(reader); }},
                              reader);
    is_gone_ = reader.is_gone();
    is_lost_ = answer.is_lost;
    return answer.problem;
}

void StripeReceiver::take_chunk(const ChunkHead& head, std::string_view bytes) {
    uint32_t place = layer_.count(stripe_), wanted = chunk_at(stripe_, place);
    // Chunk 0 comes last, in a place that only the size tells.
    if (head.index == 0 && stripe_ == 0) {
        await_sum();
        wanted = chunk_at(stripe_, place, chunks_in(layer_.sum()->size)).value_or(UINT32_MAX);
    }
    if (head.index != wanted) throw WrongChunk("it sends chunks in a wrong order");
    if (uint64_t{head.index} * chunk_size + head.size > settings_.limit)
        throw WrongChunk("it sends more than can be made of the layer");
    if (sum_of_chunk(bytes) != head.sum) throw WrongChunk("it sent wrong bytes");
    sys::pwrite_all(file_, bytes, uint64_t{head.index} * chunk_size,
                    cat("layer ", layer_.diff_id(), ", which another node sends"));
    layer_.add(head.index, head.size, head.sum);
    proven_ = key_, tries_ = 0;
    settings_.received(head.size);
}

bool StripeReceiver::has_other_source() {
    unsigned version = sources_.version();
    if (version == version_) return false;
    version_ = version;
    auto source = sources_.current(stripe_);
    return source && source->peer.key != key_;
}

bool StripeReceiver::should_leave(const ChunkReader& reader) {
    auto now = Clock::now();
    if (is_over()) return true;
    if (has_other_source()) return is_moved_ = true;
    // Each time later, in case it never gets any.
    if (went_on_ && now - *went_on_ > settings_.back * (1 << returns_)) return goes_back_ = true;
    // One that has nothing mostly waits for another node, and finds a better one itself.
    return is_starved_ = now - reader.fed() > settings_.starving;
}

}  // namespace

void SourceList::set(Lists lists) {
    std::lock_guard lock(mutex_);
    lists_ = std::move(lists);
    turns_ = {};
    ++version_;
}

std::optional<SourcePeer> SourceList::current(unsigned stripe) const {
    std::lock_guard lock(mutex_);
    const auto& list = lists_[stripe];
    return list.empty() ? std::nullopt : std::optional(list[turns_[stripe] % list.size()]);
}

void SourceList::pass_over(unsigned stripe, const SourcePeer& source) {
    std::lock_guard lock(mutex_);
    const auto& list = lists_[stripe];
    if (!list.empty() && list[turns_[stripe] % list.size()].peer.key == source.peer.key) ++turns_[stripe];
}

void SourceList::begin_again(unsigned stripe, const SourcePeer& source) {
    std::lock_guard lock(mutex_);
    const auto& list = lists_[stripe];
    if (!list.empty() && list[turns_[stripe] % list.size()].peer.key == source.peer.key) turns_[stripe] = 0;
}

void receive_layer(GrowingLayer& layer, int file, SourceList& sources, const ReceiveSettings& settings) {
    layer.lie_in(descriptor_of(file, cat("layer ", layer.diff_id())));
    // When one stripe fails, the other one is of no use.
    std::atomic<bool> has_failed = false;
    ReceiveSettings both = settings;
    both.is_over = [&] { return has_failed || settings.is_over(); };
    std::array<std::exception_ptr, stripe_count> failures;
    auto receive = [&](unsigned stripe) {
        try {
            StripeReceiver(layer, stripe, file, sources, both).run();
        } catch (...) {
            if (!has_failed.exchange(true)) failures[stripe] = std::current_exception();
        }
    };
    {
        std::jthread second(receive, 1);
        receive(0);
    }
    for (const std::exception_ptr& failure : failures)
        if (failure) std::rethrow_exception(failure);
    auto sum = layer.sum();
    if (!sum || layer.sum_of_sums() != sum->chunks)
        throw NotShared("what other nodes sent is not what the layer's owner has");
}

}  // namespace berth::pull::nodes
