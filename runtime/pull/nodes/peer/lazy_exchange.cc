#include "runtime/pull/nodes/peer/lazy_exchange.hh"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/nodes/chunks/chunk_reader.hh"
#include "runtime/pull/nodes/peer/lazy_image.hh"

namespace berth::pull::nodes {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto roster_patience = seconds(10);
/// After so long without a chunk the registry is asked as well: the neighbour may not reach it.
constexpr auto starved_after = seconds(20);
/// Tries of a neighbour that sends nothing, one after the other.
constexpr unsigned neighbour_tries = 3;
constexpr auto between_neighbour_tries = milliseconds(500);
constexpr auto look_again = milliseconds(500);

}  // namespace

struct LazyExchange::Impl {
    Impl(NodeSettings its, std::shared_ptr<const store::Partial> its_partial, const std::vector<uint32_t>& profile);
    ~Impl();

    void take(const Message& message);
    Plan wait_for_roster();
    void share_out(const std::vector<uint32_t>& profile);
    void set_gone(unsigned node);
    void set_owners(ChunkOwners next);
    bool lacks_from(unsigned neighbour) const;
    void leave(unsigned neighbour, const std::string& reason);
    void add_part(uint32_t chunk, uint32_t offset, std::string_view bytes);
    ChunkReader reader(const Sink& sink);
    std::string ask(ChunkClient& client, unsigned neighbour, const std::string& path, const std::string& here,
                    ChunkReader& reader, const std::function<bool(const ChunkReader&)>& is_over);

    NodeSettings settings;
    std::shared_ptr<const store::Partial> partial;
    std::shared_ptr<LazyImage> image;
    NodeLink link;
    Plan roster;
    /// The newest; and all, since nobody waits for those who still read an old one. One more for each node that goes,
    /// 160 kB where the image has 20 GB.
    std::atomic<const ChunkOwners*> owners = nullptr;
    std::vector<std::shared_ptr<const ChunkOwners>> all_owners;
    /// Of a node: chunks come from it; none at the moment; none is taken from it any more.
    enum class Gives : uint8_t { yes, not_now, no };
    std::vector<std::atomic<Gives>> gives;

    mutable std::mutex mutex;  ///< of what follows
    std::condition_variable changed;
    std::optional<Plan> told;
    std::string alone;  ///< why the tracker is of no use
    std::set<unsigned> proved;
    std::set<unsigned> gone;  ///< who went before there were owners
    std::vector<unsigned> neighbours;
    unsigned woken = 0;  ///< so often
    bool is_ended = false;
};

LazyExchange::Impl::Impl(NodeSettings its, std::shared_ptr<const store::Partial> its_partial,
                          const std::vector<uint32_t>& profile)
    : settings(std::move(its)),
      partial(std::move(its_partial)),
      image(std::make_shared<LazyImage>(partial, settings.image)),
      link(settings) {
    link.server().offer(image);
    auto hear = [this](const Message* message) {
        if (message != nullptr) take(*message);
        std::lock_guard lock(mutex);
        return !is_ended;
    };
    auto lost = [this](const std::string& reason) {
        std::lock_guard lock(mutex);
        if (alone.empty()) alone = reason;
        is_ended = true;
        changed.notify_all();
    };
    link.join(true, hear, lost);
    try {
        roster = wait_for_roster();
        share_out(profile);
    } catch (...) {
        link.leave();
        throw;
    }
}

LazyExchange::Impl::~Impl() {
    {
        std::lock_guard lock(mutex);
        is_ended = true;
        changed.notify_all();
    }
    link.leave();
}

void LazyExchange::Impl::take(const Message& message) {
    std::lock_guard lock(mutex);
    if (const auto* it = std::get_if<Plan>(&message)) told = *it;
    if (const auto* it = std::get_if<Done>(&message)) proved.insert(it->layer);
    if (const auto* it = std::get_if<Gone>(&message)) set_gone(it->node);
    if (const auto* it = std::get_if<Alone>(&message)) alone = it->reason;
    if (std::holds_alternative<Finished>(message)) is_ended = true;
    changed.notify_all();
}

Plan LazyExchange::Impl::wait_for_roster() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, roster_patience, [&] { return told || !alone.empty() || is_ended; });
    if (!told) throw Error(alone.empty() ? "srun's berth does not say which nodes take part" : alone);
    return *told;
}

void LazyExchange::Impl::share_out(const std::vector<uint32_t>& profile) {
    std::vector<uint32_t> ends;
    for (const store::PartialLayer& layer : partial->layers) ends.push_back(layer.first + layer.chunks());
    auto count = static_cast<unsigned>(roster.peers.size());
    if (count == 0) throw Error("srun's berth says that no node takes part");
    gives = std::vector<std::atomic<Gives>>(count);
    for (unsigned node = 0; node < count; ++node) gives[node] = node == roster.own ? Gives::no : Gives::yes;
    ChunkOwners first(count, ends, profile);
    std::lock_guard lock(mutex);
    set_owners(std::move(first));
    for (unsigned node : gone) set_gone(node);
}

/// With the mutex.
void LazyExchange::Impl::set_gone(unsigned node) {
    if (all_owners.empty()) gone.insert(node);
    if (all_owners.empty() || node >= gives.size() || node == roster.own) return;
    gives[node] = Gives::no;
    ChunkOwners next = *all_owners.back();
    next.set_gone(node);
    set_owners(std::move(next));
}

/// With the mutex.
void LazyExchange::Impl::set_owners(ChunkOwners next) {
    all_owners.push_back(std::make_shared<const ChunkOwners>(std::move(next)));
    owners = all_owners.back().get();
    neighbours = all_owners.back()->sources(roster.own);
    image->set_owners(all_owners.back(), roster.own);
}

/// Chunks are to come from it that are not here.
bool LazyExchange::Impl::lacks_from(unsigned neighbour) const {
    const ChunkOwners& now = *owners;
    for (uint32_t chunk = 0; chunk < partial->map->count(); ++chunk)
        if (!partial->map->is_here(chunk) && now.source(chunk, roster.own) == neighbour) return true;
    return false;
}

void LazyExchange::Impl::add_part(uint32_t chunk, uint32_t offset, std::string_view bytes) {
    if (!partial->map->is_here(chunk) && image->is_passed_on(chunk)) image->coming().add(chunk, offset, bytes);
}

ChunkReader LazyExchange::Impl::reader(const Sink& sink) {
    return ChunkReader(
        {.size_of = [this](const ChunkHead& head) -> std::optional<uint32_t> {
             if (head.index >= partial->map->count()) return std::nullopt;
             return image->size(head.index);
         },
         .whole = [&sink](const ChunkHead& head, std::string_view bytes) { sink(head.index, bytes); },
         .part = [this](uint32_t chunk, uint32_t offset, std::string_view bytes) { add_part(chunk, offset, bytes); }});
}

void LazyExchange::Impl::leave(unsigned neighbour, const std::string& reason) {
    if (gives[neighbour].exchange(Gives::no) != Gives::no && settings.notice)
        settings.notice(cat("node ", printable(roster.peers[neighbour].node),
                            " sends no parts of the image: ", reason, "; the registry is asked for them"));
}

/// Why the answer has not come whole; empty: it has.
std::string LazyExchange::Impl::ask(ChunkClient& client, unsigned neighbour, const std::string& path,
                                     const std::string& here, ChunkReader& reader,
                                     const std::function<bool(const ChunkReader&)>& is_over) try {
    auto should_leave = [&] { return gives[neighbour] == Gives::no || is_over(reader); };
    return client.get({roster.peers[neighbour], path, link.token(), here, should_leave}, reader).problem;
} catch (const SysError&) {
    throw;
} catch (const Error& problem) {
    // The sink's.
    leave(neighbour, problem.what());
    return problem.what();
}

LazyExchange::LazyExchange(NodeSettings settings, std::shared_ptr<const store::Partial> partial,
                             const std::vector<uint32_t>& profile)
    : impl_(std::make_unique<Impl>(std::move(settings), std::move(partial), profile)) {}
LazyExchange::~LazyExchange() = default;

unsigned LazyExchange::nodes() const { return static_cast<unsigned>(impl_->roster.peers.size()); }
std::vector<unsigned> LazyExchange::neighbours() const {
    std::lock_guard lock(impl_->mutex);
    return impl_->neighbours;
}

std::optional<unsigned> LazyExchange::source(uint32_t chunk) const {
    unsigned out = impl_->owners.load()->source(chunk, impl_->roster.own);
    return impl_->gives[out] == Impl::Gives::yes ? std::optional(out) : std::nullopt;
}

bool LazyExchange::take(ChunkClient& client, unsigned neighbour, ChunkMap::Chunks chunks, const Sink& sink,
                         const std::function<bool()>& is_over) {
    ChunkReader reader = impl_->reader(sink);
    std::string problem = impl_->ask(client, neighbour, impl_->image->path(chunks), "", reader,
                                     [&](const ChunkReader& its) {
                                         return is_over() || Clock::now() - its.fed() > starved_after;
                                     });
    if (problem.empty()) return true;
    // Until something comes from it again.
    auto yes = Impl::Gives::yes;
    if (reader.chunks() == 0 && !is_over()) impl_->gives[neighbour].compare_exchange_strong(yes, Impl::Gives::not_now);
    return false;
}

void LazyExchange::take_all(ChunkClient& client, unsigned neighbour, const Sink& sink,
                             const std::function<bool()>& is_over) {
    std::atomic<Impl::Gives>& gives = impl_->gives[neighbour];
    auto fed = Clock::now();
    for (unsigned failed = 0; failed < neighbour_tries && gives != Impl::Gives::no && !is_over();) {
        ChunkReader reader = impl_->reader(sink);
        auto watch = [&](const ChunkReader& its) {
            // It may have some later, and is listened to.
            bool is_starving = Clock::now() - (its.has_fed() ? its.fed() : fed) > starved_after;
            auto now = is_starving ? Impl::Gives::not_now : Impl::Gives::yes;
            auto before = is_starving ? Impl::Gives::yes : Impl::Gives::not_now;
            if (its.has_fed() || is_starving) gives.compare_exchange_strong(before, now);
            return is_over();
        };
        std::string problem = impl_->ask(client, neighbour, impl_->image->path_of_all(impl_->roster.own),
                                         word_of(*impl_->partial->map), reader, watch);
        if (problem.empty() && !impl_->lacks_from(neighbour)) return;
        // It may not have heard yet who has gone, and so what it is to send.
        if (problem.empty()) problem = "it ended without some parts that it is to send";
        if (reader.has_fed()) fed = reader.fed();
        if (reader.chunks() > 0) failed = 0;
        // After wrong bytes nothing is taken any more.
        if (++failed == neighbour_tries || gives == Impl::Gives::no) return impl_->leave(neighbour, problem);
        std::this_thread::sleep_for(between_neighbour_tries);
    }
}

bool LazyExchange::wait_for_more(unsigned neighbour, const std::function<bool()>& is_over) {
    std::unique_lock lock(impl_->mutex);
    for (const ChunkOwners* known = nullptr;;) {
        const ChunkOwners* now = impl_->owners;
        unsigned woken = impl_->woken;
        lock.unlock();
        if (is_over() || impl_->gives[neighbour] == Impl::Gives::no) return false;
        if (now != known && impl_->lacks_from(neighbour)) return true;
        known = now;
        lock.lock();
        impl_->changed.wait_for(lock, look_again, [&] { return impl_->woken != woken || impl_->owners != now; });
    }
}

void LazyExchange::wake() {
    std::lock_guard lock(impl_->mutex);
    ++impl_->woken;
    impl_->changed.notify_all();
}

void LazyExchange::add_part(uint32_t chunk, uint32_t offset, std::string_view bytes) {
    impl_->add_part(chunk, offset, bytes);
}

void LazyExchange::settle(uint32_t chunk, bool is_right) {
    PartialChunks& coming = impl_->image->coming();
    is_right ? coming.set_whole(chunk) : coming.set_wrong(chunk);
}

bool LazyExchange::is_to_prove(unsigned layer) const {
    return impl_->roster.own && layer % nodes() == *impl_->roster.own;
}

void LazyExchange::tell_proved(unsigned layer) {
    try {
        impl_->link.send(Done{layer});
    } catch (const Error&) {
        // The others prove it themselves.
    }
}

bool LazyExchange::is_proved(unsigned layer) const {
    std::lock_guard lock(impl_->mutex);
    return impl_->proved.contains(layer);
}

void LazyExchange::serve_to_the_end() {
    try {
        impl_->link.send(Finished{});
    } catch (const Error&) {
        return;
    }
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] { return impl_->is_ended; });
}

uint64_t LazyExchange::sent() const { return impl_->link.server().sent(); }

}  // namespace berth::pull::nodes
