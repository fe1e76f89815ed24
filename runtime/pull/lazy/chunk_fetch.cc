#include "runtime/pull/lazy/chunk_fetch.hh"

#include <algorithm>
#include <exception>
#include <set>
#include <thread>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/base/throttle.hh"
#include "runtime/pull/nodes/policy/chunk_owners.hh"

namespace berth::pull {

ChunkOrder::ChunkOrder(std::vector<uint32_t> ends, std::vector<uint32_t> profile, Source source)
    : ends_(std::move(ends)),
      profile_(std::move(profile)),
      source_(std::move(source)),
      left_(ends_.empty() ? 0 : ends_.back()) {
    in_profile_.resize(left_);
    taken_.resize(left_);
    run_starts_.resize(left_);
    here_.resize(left_);
    for (uint32_t chunk : profile_) {
        if (!in_profile_[chunk]) ++profile_left_;
        in_profile_[chunk] = true;
    }
}

bool ChunkOrder::set_here(uint32_t chunk) {
    bool is_new = !here_[chunk];
    if (is_new) --left_;
    if (is_new && in_profile_[chunk]) --profile_left_;
    here_[chunk] = true;
    taken_[chunk] = Taken::at_once;
    return is_new;
}

/// From `first`, which nobody brings, to before the next that somebody does, or that comes from elsewhere.
ChunkRun ChunkOrder::run_at(uint32_t first, uint32_t limit, bool of_profile, Taken as) {
    auto layer = static_cast<size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
    uint32_t behind = first;
    std::optional<unsigned> from = source(first);
    while (behind < ends_[layer] && behind - first < limit && taken_[behind] == Taken::no &&
           (!of_profile || in_profile_[behind]) && source(behind) == from) {
        taken_[behind] = as;
        run_starts_[behind++] = first;
    }
    return {layer, {first, behind - first}, false, from};
}

/// A request is under way that has it, and brings others first. What comes from a node comes from its owner by itself.
bool ChunkOrder::is_far(uint32_t chunk) const {
    return source_ && !source(chunk) && taken_[chunk] == Taken::in_turn &&
           chunk - run_starts_[chunk] >= far_chunks && !here_[chunk - far_chunks];
}

std::optional<ChunkRun> ChunkOrder::next(const std::vector<uint32_t>& wanted, UpTo up_to) {
    for (uint32_t chunk : wanted) {
        // Other nodes send the profile of their own accord, what will be waited for next with it: nothing of that is to
        // be held up.
        bool is_expected = source_ && in_profile_[chunk];
        if (is_far(chunk)) {
            taken_[chunk] = Taken::at_once;
            auto layer = static_cast<size_t>(std::ranges::upper_bound(ends_, chunk) - ends_.begin());
            return ChunkRun{layer, {chunk, 1}, !is_expected, std::nullopt};
        }
        if (taken_[chunk] == Taken::no && !(is_expected && source(chunk))) {
            ChunkRun out = run_at(chunk, urgent_chunks, is_expected, Taken::at_once);
            out.urgent = !is_expected;
            uint32_t behind = out.chunks.first + out.chunks.count;
            behind_ = {behind, std::min(chunks_behind, ends_[out.layer] - behind)};
            return out;
        }
    }
    if (up_to == UpTo::wanted) return std::nullopt;
    if (auto out = next_of_profile()) return out;
    // What was to come from another node may have become this one's.
    if (source_) next_of_profile_ = 0;
    if (up_to == UpTo::profile || (source_ && profile_left_ > 0)) return std::nullopt;
    if (auto out = next_behind()) return out;
    if (up_to == UpTo::behind) return std::nullopt;
    auto out = next_of_rest();
    if (!out && source_) next_of_rest_ = 0;
    return out;
}

std::optional<ChunkRun> ChunkOrder::next_of_profile() {
    for (; next_of_profile_ < profile_.size(); ++next_of_profile_)
        if (is_free(profile_[next_of_profile_])) return run_at(profile_[next_of_profile_], chunks_a_run, true);
    return std::nullopt;
}

std::optional<ChunkRun> ChunkOrder::next_behind() {
    for (; behind_.count > 0; ++behind_.first, --behind_.count)
        if (is_free(behind_.first)) return run_at(behind_.first, std::min(chunks_a_run, behind_.count), false);
    return std::nullopt;
}

std::optional<ChunkRun> ChunkOrder::next_of_rest() {
    for (; next_of_rest_ < taken_.size(); ++next_of_rest_)
        if (is_free(next_of_rest_))
            return run_at(next_of_rest_, source_ ? nodes::ChunkOwners::chunks_a_run : chunks_a_run, false);
    return std::nullopt;
}

bool StartWatch::is_over(Time now, uint32_t wishes, bool lacks_profile) {
    if (std::exchange(wishes_, wishes) != wishes || lacks_profile) went_on_ = now;
    return now - went_on_ >= std::clamp<Time::duration>((went_on_ - began_) / 4, shortest, longest);
}

namespace {

using Clock = std::chrono::steady_clock;

/// One is kept for what is waited for. Nodes that bring an image together have fewer each: what one of them brings it
/// brings chunk by chunk, so that the others can have the first of it soon.
constexpr unsigned connections = 4;
unsigned connections_of(const nodes::LazyExchange* exchange) {
    unsigned nodes = exchange == nullptr ? 1 : exchange->nodes(), others = connections - 1;
    return 1 + (others + nodes - 1) / nodes;
}
constexpr auto look_again = std::chrono::milliseconds(200);
/// A transfer that waits for longer would look like one that has broken.
constexpr auto longest_pause = std::chrono::seconds(2);
constexpr unsigned wrong_limit = 3;

ChunkOrder::Source source_of(const nodes::LazyExchange* exchange) {
    if (exchange == nullptr) return {};
    return [exchange](uint32_t chunk) { return exchange->source(chunk); };
}

std::vector<uint32_t> ends_of(const store::Partial& partial) {
    std::vector<uint32_t> out;
    for (const store::PartialLayer& layer : partial.layers) out.push_back(layer.first + layer.chunks());
    return out;
}

/// One more of a number for as long as it lives.
class Counted {
  public:
    Counted(std::atomic<unsigned>& number, bool counts) : number_(number), by_(counts ? 1 : 0) { number_ += by_; }
    ~Counted() { number_ -= by_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

  private:
    std::atomic<unsigned>& number_;
    unsigned by_;
};

class ChunkFetch {
  public:
    ChunkFetch(const store::Partial& partial, const oci::Artifact& artifact, const ChunkSums& sums,
               const std::vector<uint32_t>& profile, const ChunkFetchSettings& settings)
        : partial_(partial),
          artifact_(artifact),
          sums_(sums),
          settings_(settings),
          ends_(ends_of(partial)),
          map_(*partial.map),
          order_(ends_, profile, source_of(settings.exchange)),
          throttle_(settings.rate),
          last_progress_(Clock::now()) {
        for (uint32_t chunk = 0; chunk < map_.count(); ++chunk)
            if (map_.is_here(chunk)) order_.set_here(chunk);
    }

    void run(oci::Source& source);

  private:
    void work(oci::Source& source, bool only_wanted) noexcept;
    std::optional<ChunkRun> next(bool only_wanted);
    ChunkOrder::UpTo up_to();
    void fetch(oci::Source& source, nodes::ChunkClient& client, ChunkRun run);
    void read(oci::Source& source, ChunkRun& run);
    void read_from_node(nodes::ChunkClient& client, ChunkRun& run);
    void listen() noexcept;
    void listen_to(unsigned node) noexcept;
    void take_from_node(uint32_t chunk, std::string_view bytes);
    bool take_chunk(size_t layer, uint32_t chunk, std::string_view bytes, const char* sender);
    void wait_for_turn(bool is_urgent, ChunkMap::Chunks chunks, size_t bytes);
    void leave_room(ChunkMap::Chunks chunks);
    bool is_wanted(ChunkMap::Chunks chunks) const;
    bool is_over();
    bool stopped() const { return failed_ || (settings_.stop != nullptr && *settings_.stop); }
    void fail(std::exception_ptr failure);

    const store::Partial& partial_;
    const oci::Artifact& artifact_;
    const ChunkSums& sums_;
    const ChunkFetchSettings& settings_;
    const std::vector<uint32_t> ends_;
    ChunkMap& map_;
    std::mutex mutex_;  ///< of what follows
    ChunkOrder order_;
    Throttle throttle_;  ///< of what nobody waits for
    Clock::time_point last_progress_;
    StartWatch start_{Clock::now()};
    std::exception_ptr failure_;
    std::atomic<bool> failed_ = false;
    std::atomic<unsigned> urgent_ = 0;  ///< requests for what is waited for
};

void ChunkFetch::run(oci::Source& source) {
    std::vector<std::unique_ptr<oci::Source>> siblings;
    for (unsigned i = 1; i < connections_of(settings_.exchange); ++i) siblings.push_back(source.sibling());
    {
        // Joined at the end of the block.
        std::vector<std::jthread> threads;
        for (auto& sibling : siblings) threads.emplace_back(&ChunkFetch::work, this, std::ref(*sibling), false);
        if (settings_.exchange != nullptr) threads.emplace_back(&ChunkFetch::listen, this);
        work(source, true);
    }
    if (!failure_) return;
    for (uint32_t chunk : map_.wanted()) map_.set_failed(chunk);
    std::rethrow_exception(failure_);
}

void ChunkFetch::fail(std::exception_ptr failure) {
    {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::move(failure);
        failed_ = true;
    }
    if (settings_.exchange != nullptr) settings_.exchange->wake();
}

/// While a start goes on, the registry is left to what it waits for, here and on other nodes.
ChunkOrder::UpTo ChunkFetch::up_to() {
    if (start_.is_over(Clock::now(), map_.wishes(), order_.lacks_profile())) return ChunkOrder::UpTo::rest;
    bool is_alone = settings_.exchange == nullptr || settings_.exchange->neighbours().empty();
    return is_alone ? ChunkOrder::UpTo::behind : ChunkOrder::UpTo::profile;
}

/// Waits for something to do. Nothing when all is here.
std::optional<ChunkRun> ChunkFetch::next(bool only_wanted) {
    for (;;) {
        uint32_t seen = map_.wishes();
        {
            std::lock_guard lock(mutex_);
            if (order_.is_complete()) return std::nullopt;
            auto far = only_wanted ? ChunkOrder::UpTo::wanted : up_to();
            if (auto run = order_.next(map_.wanted(), far)) return run;
        }
        if (stopped()) throw Error(cat(settings_.what, ": stopped"));
        map_.wait_for_wish(seen, only_wanted ? look_again : look_again / 4);
    }
}

void ChunkFetch::work(oci::Source& source, bool only_wanted) noexcept {
    try {
        nodes::ChunkClient client;
        while (auto run = next(only_wanted)) fetch(source, client, *run);
    } catch (...) {
        fail(std::current_exception());
    }
}

/// To all neighbours, also those that become some since another node has gone.
void ChunkFetch::listen() noexcept {
    try {
        std::vector<std::jthread> threads;
        std::set<unsigned> heard;
        for (; !is_over(); std::this_thread::sleep_for(look_again / 4))
            for (unsigned node : settings_.exchange->neighbours())
                if (heard.insert(node).second) threads.emplace_back(&ChunkFetch::listen_to, this, node);
    } catch (...) {
        fail(std::current_exception());
    }
}

/// All that comes from a neighbour of its own accord.
void ChunkFetch::listen_to(unsigned node) noexcept {
    try {
        nodes::ChunkClient client;
        auto take = [&](uint32_t chunk, std::string_view bytes) {
            wait_for_turn(false, {chunk, 1}, bytes.size());
            take_from_node(chunk, bytes);
        };
        auto over = [&] { return is_over(); };
        do settings_.exchange->take_all(client, node, take, over);
        while (settings_.exchange->wait_for_more(node, over));
    } catch (...) {
        fail(std::current_exception());
    }
}

bool ChunkFetch::is_over() {
    std::lock_guard lock(mutex_);
    return stopped() || order_.is_complete();
}

bool ChunkFetch::is_wanted(ChunkMap::Chunks chunks) const {
    std::vector<uint32_t> wanted = map_.wanted();
    auto first = std::ranges::lower_bound(wanted, chunks.first);
    return first != wanted.end() && *first < chunks.first + chunks.count;
}

/// Before bytes that somebody may wait for by now.
void ChunkFetch::wait_for_turn(bool is_urgent, ChunkMap::Chunks chunks, size_t bytes) {
    if (is_urgent) return;
    leave_room(chunks);
    // Another node may wait for it: that is not told of the profile, see ChunkOrder::next().
    if (settings_.exchange != nullptr && order_.is_in_profile(chunks.first)) return;
    auto turn = throttle_.turn(bytes);
    while (Clock::now() < turn && !stopped() && !is_wanted(chunks))
        std::this_thread::sleep_until(std::min(turn, Clock::now() + std::chrono::milliseconds(20)));
}

/// What is waited for has the link to itself: the server is kept from sending more of this.
void ChunkFetch::leave_room(ChunkMap::Chunks chunks) {
    auto since = Clock::now();
    while (urgent_ > 0 && !stopped() && Clock::now() - since < longest_pause && !is_wanted(chunks))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

void ChunkFetch::take_from_node(uint32_t chunk, std::string_view bytes) {
    if (map_.is_here(chunk)) return settings_.exchange->settle(chunk, true);
    auto layer = static_cast<size_t>(std::ranges::upper_bound(ends_, chunk) - ends_.begin());
    bool is_new = take_chunk(layer, chunk, bytes, "another node");
    if (is_new && settings_.from_nodes) settings_.from_nodes(bytes.size());
}

/// False when another one was faster.
bool ChunkFetch::take_chunk(size_t number, uint32_t chunk, std::string_view bytes, const char* sender) {
    const store::PartialLayer& layer = partial_.layers[number];
    bool is_right = sums_.match(chunk, bytes);
    if (!is_right && settings_.exchange != nullptr) settings_.exchange->settle(chunk, false);
    if (!is_right)
        throw Error(cat(settings_.what, ", layer ", layer.diff_id, ": ", sender,
                        " sent other bytes than were published"));
    uint64_t at = uint64_t{chunk - layer.first} * ChunkMap::chunk_size;
    sys::pwrite_all(layer.file.get(), bytes, at, cat(settings_.what, ", layer ", layer.diff_id));
    bool was_wanted = map_.is_wanted(chunk);
    map_.set_here(chunk);
    if (settings_.exchange != nullptr) settings_.exchange->settle(chunk, true);
    std::unique_lock lock(mutex_);
    last_progress_ = Clock::now();
    if (!order_.set_here(chunk)) return false;
    if (settings_.taken) settings_.taken(number, bytes.size());
    if (settings_.waited && was_wanted) settings_.waited(bytes.size());
    bool is_last = order_.is_complete();
    lock.unlock();
    if (is_last && settings_.exchange != nullptr) settings_.exchange->wake();
    return true;
}

/// `run` is shortened by what has come.
void ChunkFetch::read(oci::Source& source, ChunkRun& run) {
    const store::PartialLayer& layer = partial_.layers[run.layer];
    const oci::PublishedLayer* published = artifact_.find(layer.diff_id);
    uint64_t from = uint64_t{run.chunks.first - layer.first} * ChunkMap::chunk_size;
    uint64_t size = std::min(layer.size - from, run.chunks.count * ChunkMap::chunk_size);
    std::string chunk;
    uint64_t left = size;
    source.read_range(published->squashfs, from, size, [&](std::string_view bytes) {
        wait_for_turn(run.urgent, run.chunks, bytes.size());
        while (!bytes.empty()) {
            size_t wanted = std::min<uint64_t>(left, ChunkMap::chunk_size) - chunk.size();
            std::string_view part = bytes.substr(0, wanted);
            if (settings_.exchange != nullptr)
                settings_.exchange->add_part(run.chunks.first, static_cast<uint32_t>(chunk.size()), part);
            chunk += part;
            bytes.remove_prefix(part.size());
            if (part.size() < wanted) return;
            take_chunk(run.layer, run.chunks.first, chunk, "the registry");
            left -= chunk.size();
            chunk.clear();
            ++run.chunks.first, --run.chunks.count;
        }
    });
}

/// `run` is shortened by what has come.
void ChunkFetch::read_from_node(nodes::ChunkClient& client, ChunkRun& run) {
    settings_.exchange->take(
        client, *run.from, run.chunks,
        [&](uint32_t chunk, std::string_view bytes) {
            if (chunk != run.chunks.first || run.chunks.count == 0) throw Error("it sends chunks in a wrong order");
            take_from_node(chunk, bytes);
            ++run.chunks.first, --run.chunks.count;
        },
        [&] { return stopped(); });
}

/// One that breaks is begun again where it was, for as long as there is patience with a source that sends nothing.
void ChunkFetch::fetch(oci::Source& source, nodes::ChunkClient& client, ChunkRun run) {
    Counted counted(urgent_, run.urgent);
    // What does not come from there is the registry's.
    if (run.from) read_from_node(client, run);
    for (unsigned wrong = 0; run.chunks.count > 0;) try {
            read(source, run);
        } catch (const SysError&) {
            throw;  // of this machine's disk
        } catch (const oci::NoRanges&) {
            throw;
        } catch (const Error& problem) {
            if (stopped()) throw;
            bool passes = dynamic_cast<const oci::Unreachable*>(&problem) != nullptr;
            if (!passes && source.pass_over_senders().empty() && ++wrong == wrong_limit) throw;
            {
                std::lock_guard lock(mutex_);
                if (Clock::now() - last_progress_ > settings_.patience) throw;
            }
            std::this_thread::sleep_for(look_again);
        }
}

}  // namespace

void fetch_chunks(const store::Partial& partial, const oci::Artifact& artifact, const ChunkSums& sums,
                  const std::vector<uint32_t>& profile, oci::Source& source, const ChunkFetchSettings& settings) {
    ChunkFetch(partial, artifact, sums, profile, settings).run(source);
}

}  // namespace berth::pull
