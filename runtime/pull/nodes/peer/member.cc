#include "runtime/pull/nodes/peer/member.hh"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::pull::nodes {

namespace {

using std::chrono::milliseconds;

/// How long the tracker may take for a plan, and one node for the documents, before this node goes on alone.
constexpr auto documents_patience = std::chrono::seconds(60);
constexpr auto plan_patience = std::chrono::seconds(10);
/// And for any word, once there is a plan: each report is answered.
constexpr auto tracker_patience = std::chrono::seconds(30);
/// Who had bytes so lately has more of them soon.
constexpr auto work_after_bytes = std::chrono::seconds(20);

template <typename... Takes>
struct Overloaded : Takes... {
    using Takes::operator()...;
};
template <typename... Takes>
Overloaded(Takes...) -> Overloaded<Takes...>;

struct KnownLayer {
    std::shared_ptr<GrowingLayer> growing;
    uint64_t size = 0;
    Fd file;                             ///< where it was here from the start
    std::string owner = {};              ///< of what is received; see LayerSum
    Member::Role role = Member::Role::receive;
    std::shared_ptr<SourceList> sources = std::make_shared<SourceList>();
    bool is_seed = false;                ///< is served from `file`
    enum class Coming { no, waits, yes } coming = Coming::no;
    std::chrono::steady_clock::time_point fed = {};  ///< when the last chunk came
    std::array<uint64_t, stripe_count> behind = {};  ///< bytes that the sources have and this node does not
};

/// So many layers that bytes come of are received at a time. Those of which none come, since they are being made, do
/// not count.
constexpr unsigned coming_limit = 3;
constexpr auto fed_lately = milliseconds(300);

/// Bytes of a layer as squashfs, by those that the registry has: far above any honest one, which has some times as
/// many where nothing is compressed. Who gets more pulls the layer, and who gets less has not filled the disk.
uint64_t most_bytes(uint64_t packed) {
    constexpr uint64_t times = 16, least = 64 << 20;
    return packed > (UINT64_MAX - least) / times ? UINT64_MAX : packed * times + least;
}

/// Whether the layer `index` may begin to come: of those that wait the largest is the first, at all nodes alike.
bool is_its_turn(const std::vector<KnownLayer>& layers, unsigned index, std::chrono::steady_clock::time_point now) {
    unsigned coming = 0;
    for (unsigned i = 0; i < layers.size(); ++i) {
        const KnownLayer& other = layers[i];
        bool is_before = other.size > layers[index].size || (other.size == layers[index].size && i < index);
        if (other.coming == KnownLayer::Coming::waits && i != index && is_before) return false;
        if (other.coming == KnownLayer::Coming::yes && now - other.fed < fed_lately) ++coming;
    }
    return coming < coming_limit;
}

SourceList::Lists sources_in(const LayerRole& role, const std::vector<Peer>& peers) {
    SourceList::Lists out;
    for (unsigned stripe = 0; stripe < stripe_count; ++stripe)
        for (unsigned place : role.sources[stripe])
            if (place < peers.size()) out[stripe].push_back({place, peers[place]});
    return out;
}

}  // namespace

struct Member::Impl {
    Impl() : is_alone(true), is_ended(true) {}
    explicit Impl(NodeSettings its);
    ~Impl();

    bool hear(Message* message);
    void take(Message& message);
    void take_plan(Plan& plan);
    void take_role(unsigned index, const LayerRole& role, const std::vector<Peer>& peers);
    void take_alone(const Alone& alone);
    void take_done(const Done& done);
    void be_alone(const std::string& reason);
    void serve_stored();
    void serve_stored(const Digest& diff_id, int file);
    void send(const Message& message);
    void wait_for_turn(unsigned index);
    void set_coming(unsigned index, KnownLayer::Coming coming);
    void report_progress();
    unsigned index_of(const Digest& diff_id) const { return places.at(diff_id); }
    KnownLayer& known(const Digest& diff_id) { return layers[index_of(diff_id)]; }

    NodeSettings settings;
    std::optional<NodeLink> link;  ///< nothing where nobody is to be met
    std::atomic<uint64_t> registry_bytes = 0, received_bytes = 0;
    std::atomic<std::chrono::steady_clock::time_point> at_work_until = {};

    mutable std::mutex mutex;  ///< of what follows
    std::condition_variable changed;
    bool is_alone = false, is_ended = false, has_plan = false, must_fetch = false;
    std::optional<std::vector<ImageDocument>> documents;
    std::vector<KnownLayer> layers;  ///< not changed after join() but for roles
    std::map<Digest, unsigned> places;
    std::deque<unsigned> to_serve;   ///< stored layers whose chunks are to be made
    /// Of the thread that hears.
    std::chrono::steady_clock::time_point next_report = std::chrono::steady_clock::now(), heard = next_report;
    std::thread seeder;
};

Member::Impl::Impl(NodeSettings its) : settings(std::move(its)), link(settings) {
    link->join(
        false, [this](Message* message) { return hear(message); },
        [this](const std::string& reason) { be_alone(reason); });
    seeder = std::thread([this] { serve_stored(); });
}

Member::Impl::~Impl() {
    {
        std::lock_guard lock(mutex);
        is_ended = true;
        for (KnownLayer& layer : layers)
            if (layer.growing) layer.growing->give_up();
        changed.notify_all();
    }
    if (!link) return;
    link->leave();
    seeder.join();
}

void Member::Impl::send(const Message& message) {
    if (!link) return;
    try {
        link->send(message);
    } catch (const Error& error) {
        be_alone(error.what());
    }
}

void Member::Impl::be_alone(const std::string& reason) {
    std::lock_guard lock(mutex);
    if (!is_alone && !is_ended && !reason.empty() && settings.notice) settings.notice(reason);
    if (!is_ended && settings.status) settings.status(std::nullopt);
    is_alone = is_ended = true;
    changed.notify_all();
}

void Member::Impl::report_progress() {
    Progress progress{.registry = registry_bytes, .peers = received_bytes, .sent = link->server().sent()};
    progress.is_at_work = std::chrono::steady_clock::now() < at_work_until.load();
    {
        std::lock_guard lock(mutex);
        for (const KnownLayer& layer : layers) {
            for (uint64_t bytes : layer.behind) progress.behind += bytes;
            uint32_t chunks = 0;
            for (unsigned stripe = 0; stripe < stripe_count; ++stripe) chunks += layer.growing->count(stripe);
            progress.layers.push_back({chunks, layer.coming == KnownLayer::Coming::yes});
        }
    }
    send(progress);
}

bool Member::Impl::hear(Message* message) {
    if (message != nullptr) take(*message), heard = std::chrono::steady_clock::now();
    {
        std::lock_guard lock(mutex);
        if (is_ended || !has_plan) return !is_ended;
    }
    auto now = std::chrono::steady_clock::now();
    if (now < next_report) return true;
    if (now - heard > tracker_patience)
        throw Error(cat("srun's berth has said nothing for ", tracker_patience.count(), " seconds"));
    report_progress();
    next_report = now + std::chrono::seconds(1);
    return true;
}

void Member::Impl::take(Message& message) {
    std::visit(Overloaded{
                   [&](Documents& told) {
                       std::lock_guard lock(mutex);
                       must_fetch = told.documents.empty();
                       if (!must_fetch) documents = std::move(told.documents);
                       changed.notify_all();
                   },
                   [&](Plan& plan) { take_plan(plan); },
                   [&](Done& done) { take_done(done); },
                   [&](NewRole& changed_role) {
                       std::lock_guard lock(mutex);
                       if (changed_role.layer < layers.size())
                           take_role(changed_role.layer, changed_role.role, changed_role.peers);
                   },
                   [&](Alone& alone) { take_alone(alone); },
                   [&](StepStatus& status) {
                       if (settings.status) settings.status(status);
                   },
                   [&](Finished&) {
                       std::lock_guard lock(mutex);
                       is_ended = true;
                       changed.notify_all();
                   },
                   // What nodes say, and what is said of images that run already.
                   [](auto&) {},
               },
               message);
}

void Member::Impl::take_plan(Plan& plan) {
    std::lock_guard lock(mutex);
    for (unsigned i = 0; i < layers.size() && i < plan.layers.size(); ++i) take_role(i, plan.layers[i], plan.peers);
    has_plan = true;
    changed.notify_all();
}

/// With the mutex.
void Member::Impl::take_role(unsigned index, const LayerRole& role, const std::vector<Peer>& peers) {
    KnownLayer& layer = layers[index];
    if (layer.file) {
        if (role.is_owner && !layer.is_seed) layer.is_seed = true, to_serve.push_back(index);
    } else {
        layer.role = role.is_owner ? Role::owner : Role::receive;
        layer.sources->set(sources_in(role, peers));
    }
    changed.notify_all();
}

void Member::Impl::take_alone(const Alone& alone) {
    if (!alone.layer) return be_alone(alone.reason);
    std::lock_guard lock(mutex);
    if (*alone.layer < layers.size()) layers[*alone.layer].role = Role::alone;
}

void Member::Impl::take_done(const Done& done) {
    std::lock_guard lock(mutex);
    if (done.layer >= layers.size() || !done.sum) return;
    KnownLayer& layer = layers[done.layer];
    // An owner knows better.
    if (layer.role != Role::receive || layer.file) return;
    layer.growing->complete(*done.sum);
    layer.owner = done.sum->owner;
}

/// In a thread: the chunks of layers that were here, one layer after the other.
void Member::Impl::serve_stored() {
    for (std::unique_lock lock(mutex);;) {
        changed.wait(lock, [&] { return is_ended || !to_serve.empty(); });
        if (is_ended) return;
        KnownLayer& layer = layers[to_serve.front()];
        to_serve.pop_front();
        lock.unlock();
        serve_stored(layer.growing->diff_id(), layer.file.get());
        lock.lock();
    }
}

void Member::Impl::serve_stored(const Digest& diff_id, int file) {
    std::string what = cat("layer ", diff_id);
    KnownLayer& layer = known(diff_id);
    try {
        ChunkPump pump(*layer.growing, descriptor_of(file, what), what);
        pump.finish();
        send(Done{index_of(diff_id), layer.growing->sum()});
    } catch (const Error& error) {
        send(Alone{index_of(diff_id), error.what()});
    }
}

void Member::Impl::set_coming(unsigned index, KnownLayer::Coming coming) {
    std::lock_guard lock(mutex);
    layers[index].coming = coming;
    layers[index].behind = {};
    layers[index].fed = std::chrono::steady_clock::now();
    changed.notify_all();
}

void Member::Impl::wait_for_turn(unsigned index) {
    set_coming(index, KnownLayer::Coming::waits);
    std::unique_lock lock(mutex);
    while (!is_its_turn(layers, index, std::chrono::steady_clock::now()) && !is_ended &&
           layers[index].role == Member::Role::receive && !(settings.stop != nullptr && *settings.stop))
        changed.wait_for(lock, milliseconds(100));
    lock.unlock();
    set_coming(index, KnownLayer::Coming::yes);
}

Member::Member() : impl_(std::make_unique<Impl>()) {}
Member::Member(NodeSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {}
Member::~Member() = default;

std::optional<std::vector<ImageDocument>> Member::documents() {
    std::unique_lock lock(impl_->mutex);
    bool has_word = impl_->changed.wait_for(lock, documents_patience, [&] {
        return impl_->documents || impl_->must_fetch || impl_->is_alone ||
               (impl_->settings.stop != nullptr && *impl_->settings.stop);
    });
    if (impl_->documents) return impl_->documents;
    lock.unlock();
    if (!has_word) impl_->be_alone("no node of the step has told the image's manifest");
    return std::nullopt;
}

void Member::tell_documents(std::vector<ImageDocument> documents) { impl_->send(Documents{std::move(documents)}); }
void Member::fail_documents(const std::string& reason) { impl_->send(Alone{std::nullopt, reason}); }

void Member::join(std::vector<SharedLayer> layers) {
    Have have;
    std::unique_lock lock(impl_->mutex);
    for (SharedLayer& layer : layers) {
        have.sizes.push_back(layer.size);
        have.has.push_back(bool(layer.file));
        impl_->places.emplace(layer.diff_id, static_cast<unsigned>(impl_->layers.size()));
        KnownLayer known{std::make_shared<GrowingLayer>(layer.diff_id), layer.size, std::move(layer.file)};
        impl_->link->server().offer(known.growing);
        impl_->layers.push_back(std::move(known));
    }
    if (impl_->is_alone) return;
    lock.unlock();
    impl_->send(have);
    lock.lock();
    bool planned =
        impl_->changed.wait_for(lock, plan_patience, [&] { return impl_->has_plan || impl_->is_alone; });
    lock.unlock();
    if (!planned) impl_->be_alone("srun's berth has made no plan");
}

Member::Role Member::role(const Digest& layer) const {
    std::lock_guard lock(impl_->mutex);
    auto place = impl_->places.find(layer);
    return impl_->is_alone || place == impl_->places.end() ? Role::alone : impl_->layers[place->second].role;
}

bool Member::has_met() const { return impl_->link.has_value(); }

GrowingLayer& Member::layer(const Digest& layer) const { return *impl_->known(layer).growing; }

void Member::receive(const Digest& diff_id, int file, const std::function<void(uint64_t)>& received) {
    Impl& impl = *impl_;
    KnownLayer& layer = impl.known(diff_id);
    unsigned index = impl.index_of(diff_id);
    ReceiveSettings settings{
        .token = impl.link->token(),
        .limit = most_bytes(layer.size),
        .stop = impl.settings.stop,
        .complain =
            [&](const SourcePeer& source, Fault fault, const std::string& reason) {
                if (impl.settings.notice)
                    impl.settings.notice(cat("node ", printable(source.peer.node), " passed over as a source: ",
                                             reason));
                impl.send(Complaint{source.peer.key, index, fault, reason});
            },
        .will_not_have =
            [&](const SourcePeer& source) { impl.send(Complaint{source.peer.key, index, Fault::gone, ""}); },
        .received =
            [&](uint64_t bytes) {
                impl.received_bytes += bytes;
                {
                    std::lock_guard lock(impl.mutex);
                    layer.fed = std::chrono::steady_clock::now();
                }
                received(bytes);
            },
        .behind =
            [&](unsigned stripe, uint64_t bytes) {
                std::lock_guard lock(impl.mutex);
                layer.behind[stripe] = bytes;
            },
        .is_over = [&] { return role(diff_id) != Role::receive; }};
    impl.wait_for_turn(index);
    try {
        receive_layer(*layer.growing, file, *layer.sources, settings);
    } catch (...) {
        impl.set_coming(index, KnownLayer::Coming::no);
        throw;
    }
    impl.set_coming(index, KnownLayer::Coming::no);
}

std::string Member::owner(const Digest& layer) const {
    std::lock_guard lock(impl_->mutex);
    return impl_->known(layer).owner;
}

void Member::tell_complete(const Digest& layer) {
    auto sum = impl_->known(layer).growing->sum();
    if (role(layer) != Role::alone && sum) impl_->send(Done{impl_->index_of(layer), sum});
}

void Member::tell_done(const Digest& layer) {
    if (role(layer) != Role::alone) impl_->send(Done{impl_->index_of(layer)});
}

void Member::tell_failed(const Digest& layer, const std::string& reason) {
    if (role(layer) != Role::alone) impl_->send(Alone{impl_->index_of(layer), reason});
}

void Member::give_up(const Digest& layer) {
    if (impl_->places.contains(layer)) impl_->known(layer).growing->give_up();
}

void Member::leave_to_others(const Digest& layer, const std::string& reason) {
    if (role(layer) == Role::alone) return;
    give_up(layer);
    tell_failed(layer, reason);
}

void Member::count_registry(uint64_t bytes) {
    impl_->registry_bytes += bytes;
    be_at_work(work_after_bytes);
}

void Member::be_at_work(milliseconds longest) {
    auto until = std::chrono::steady_clock::now() + longest;
    for (auto known = impl_->at_work_until.load(); known < until;)
        if (impl_->at_work_until.compare_exchange_weak(known, until)) return;
}

void Member::serve_to_the_end() {
    impl_->send(Finished{});
    std::unique_lock lock(impl_->mutex);
    impl_->changed.wait(lock, [&] { return impl_->is_ended; });
}

bool Member::is_shared() const {
    std::lock_guard lock(impl_->mutex);
    return impl_->has_plan && !impl_->is_ended;
}

Member::Counts Member::counts() const {
    return {impl_->registry_bytes, impl_->received_bytes, impl_->link ? impl_->link->server().sent() : 0};
}

}  // namespace berth::pull::nodes
