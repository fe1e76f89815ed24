#include "runtime/pull/layers/layers.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/base/cpus.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/layer.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/store/turn.hh"

namespace berth::pull {

namespace {

/// The connections. A worker has one while it converts a layer, not while it hashes and syncs the result, so that the
/// next layer goes on meanwhile.
class Sources {
  public:
    Sources(oci::Source& first, size_t count) : free_{&first} {
        while (free_.size() < count) free_.push_back(siblings_.emplace_back(first.sibling()).get());
    }

    struct GiveBack {
        Sources* sources;
        void operator()(oci::Source* source) const { sources->give(source); }
    };
    std::unique_ptr<oci::Source, GiveBack> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !free_.empty(); });
        // The first is the one that is connected already, and what came back last is warm.
        oci::Source* source = free_.front();
        free_.pop_front();
        return {source, GiveBack{this}};
    }

  private:
    void give(oci::Source* source) {
        std::lock_guard lock(mutex_);
        free_.push_front(source);
        changed_.notify_one();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<oci::Source>> siblings_;
    std::deque<oci::Source*> free_;
};

/// How long the nodes of a step wait for one that has to wait for another pull.
constexpr auto owners_patience = std::chrono::seconds(20);
/// What takes long and brings nothing that could be sent: the registry's first byte, hashing, a slow disk.
constexpr auto quiet_work = std::chrono::seconds(60);

/// Of this machine's disk or memory, so that nothing else helps. A disk that is full is none: what is converted here
/// may have fewer bytes than somebody else has sent.
bool is_of_this_machine(const Error& problem) {
    const auto* ours = dynamic_cast<const SysError*>(&problem);
    return ours != nullptr && ours->number() != ENOSPC && ours->number() != EDQUOT && ours->number() != EFBIG;
}

class Fetch {
  public:
    Fetch(const store::Store& store, Sources& sources, Sources* ready_made, const std::vector<MissingLayer>& layers,
          squash::CompressorPool& pool, const FetchSettings& settings, Meter& meter, const OtherSources& others)
        : store_(store),
          sources_(sources),
          ready_made_(ready_made),
          layers_(layers),
          pool_(pool),
          windows_(settings.limits.memory),
          stop_(settings.stop),
          what_(settings.what),
          meter_(meter),
          member_(others.member),
          published_(others.published),
          order_(layers.size()) {
        // The largest first: a large one that comes last would be alone at its end, and unpacks in one thread.
        std::iota(order_.begin(), order_.end(), size_t{0});
        std::stable_sort(order_.begin(), order_.end(),
                         [&](size_t a, size_t b) { return layers[a].blob.size > layers[b].blob.size; });
        // What other nodes wait for goes before what this one waits for: else two could wait for each other.
        std::stable_partition(order_.begin(), order_.end(),
                              [&](size_t i) { return role_of(layers[i]) != share::Member::Role::receive; });
    }

    /// Runs in a worker until no layer is left, or something failed.
    void work() noexcept;
    void rethrow() const {
        if (failure_) std::rethrow_exception(failure_);
    }
    /// To be called when all workers have ended.
    Fetched take_result() { return std::move(result_); }

  private:
    struct Brought {
        store::NewFile file;
        oci::ConvertedLayer layer;
        std::unique_ptr<share::ChunkPump> pump;  ///< for the other nodes; null where they do not ask
    };

    void leave_to_others(const MissingLayer& layer, const char* reason);
    void set_state(size_t index, LayerState state);
    void fetch(size_t index);
    bool receive(size_t index);
    void bring(size_t index);
    Brought fetched(size_t index);
    bool bring_published(size_t index);
    bool fetch_ready(size_t index, const oci::PublishedLayer& ready, int fd,
                     const std::function<void(uint64_t)>& take);
    void publish_proved(store::NewFile file, const Digest& diff_id) const;
    void note_origin(const MissingLayer& layer, std::string origin);
    std::function<void(uint64_t)> counter(size_t index, std::atomic<uint64_t>& taken) const;
    std::unique_ptr<share::ChunkPump> pump_for(const MissingLayer& layer, int file) const;
    share::Member::Role role_of(const MissingLayer& layer) const {
        return member_ != nullptr ? member_->role(layer.diff_id) : share::Member::Role::alone;
    }
    void refuse_other(const MissingLayer& layer, const char* kind, const Digest& is, const Digest& wanted) const;
    oci::ConvertedLayer convert(oci::Source& source, size_t index, int fd, share::ChunkPump* pump, uint64_t& taken);
    std::string name_of(const MissingLayer& layer) const { return cat(what_, ", layer ", layer.blob.digest); }
    store::Turn wait_for_turn(size_t index);
    void fail(std::exception_ptr failure);

    const store::Store& store_;
    Sources& sources_;
    Sources* ready_made_;  ///< of published layers; null where there are none
    const std::vector<MissingLayer>& layers_;
    squash::CompressorPool& pool_;
    oci::LargeWindows windows_;
    std::atomic<bool>& stop_;
    std::string what_;
    Meter& meter_;
    share::Member* member_;
    const Published* published_;
    std::vector<size_t> order_;  ///< in which the layers are fetched
    std::atomic<size_t> next_ = 0;
    std::mutex mutex_;
    std::exception_ptr failure_;
    Fetched result_;
};

void Fetch::fail(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    // Later ones are mostly the "stopped" of the other workers.
    if (!failure_) failure_ = std::move(failure);
    stop_ = true;
}

void Fetch::work() noexcept {
    try {
        for (size_t i = next_++; i < order_.size() && !stop_; i = next_++) fetch(order_[i]);
    } catch (...) {
        fail(std::current_exception());
    }
}

/// This node does not send the layer to others: they are to take it from somebody else.
void Fetch::leave_to_others(const MissingLayer& layer, const char* reason) {
    if (member_ != nullptr) member_->leave_to_others(layer.diff_id, reason);
}

/// Of a layer that this node brings. The other nodes of the step do not take it for dead while it works.
void Fetch::set_state(size_t index, LayerState state) {
    if (member_ != nullptr) member_->be_at_work(quiet_work);
    meter_.set_layer(index, state);
}

/// Another image that is being pulled may have the same layer; its pull may also die, or wait for another node that
/// waits for this one.
store::Turn Fetch::wait_for_turn(size_t index) {
    auto since = std::chrono::steady_clock::now();
    for (store::TurnQueue queue(store_, layers_[index].diff_id);;) {
        if (store::Turn turn = queue.try_take()) return turn;
        if (stop_) throw Error(cat(what_, ": stopped"));
        if (role_of(layers_[index]) == share::Member::Role::owner &&
            std::chrono::steady_clock::now() - since > owners_patience)
            leave_to_others(layers_[index], "another pull on this node holds it");
        meter_.set_layer(index, LayerState::waiting, queue.holder());
        std::this_thread::sleep_for(queue.pause());
    }
}

void Fetch::fetch(size_t index) {
    const MissingLayer& layer = layers_[index];
    store::Turn turn = wait_for_turn(index);
    debug::log("pull", name_of(layer), ": bytes ", layer.blob.size, ", ",
               role_of(layer) == share::Member::Role::receive ? "other nodes of the step send it"
               : role_of(layer) == share::Member::Role::owner ? "this node brings it for the step"
                                                              : "this node brings it");
    if (has_own_layer(store_, layer.diff_id)) {
        leave_to_others(layer, "another pull on this node has brought it");
        return meter_.set_layer(index, LayerState::present);
    }
    if (receive(index)) return;
    // Who has been told to take it from here is not to wait.
    if (member_ != nullptr && role_of(layer) == share::Member::Role::alone) member_->layer(layer.diff_id).give_up();
    try {
        if (!bring_published(index)) bring(index);
    } catch (const std::exception& problem) {
        if (member_ != nullptr) member_->tell_failed(layer.diff_id, problem.what());
        throw;
    }
}

void Fetch::bring(size_t index) {
    const MissingLayer& layer = layers_[index];
    auto [file, got, pump] = fetched(index);
    refuse_other(layer, "diff_id", got.diff_id, layer.diff_id);
    set_state(index, LayerState::saving);
    seal_layer(file.fd(), got.sums, name_of(layer));
    if (pump) {
        pump->finish();
        member_->tell_sealed(layer.diff_id);
    }
    publish_proved(std::move(file), layer.diff_id);
    note_origin(layer, "");
    debug::log("pull", name_of(layer), " is converted, and published in the store");
    meter_.set_layer(index, LayerState::done);
}

/// Counts bytes of another form of the layer than the blob, whose size people have been told.
std::function<void(uint64_t)> Fetch::counter(size_t index, std::atomic<uint64_t>& taken) const {
    return [this, index, &taken](uint64_t bytes) {
        uint64_t before = taken.fetch_add(bytes), total = layers_[index].blob.size;
        meter_.advance_layer(index, std::min(before + bytes, total) - std::min(before, total));
    };
}

/// False when the layer has still to be proved: it is marked. Other nodes get only what is proved: they could not take
/// it back.
bool Fetch::fetch_ready(size_t index, const oci::PublishedLayer& ready, int fd,
                        const std::function<void(uint64_t)>& take) {
    const MissingLayer& layer = layers_[index];
    std::string what = name_of(layer);
    bool later = published_->is_trusted && role_of(layer) == share::Member::Role::alone &&
                 !store_.is_unproved(layer.diff_id);
    auto source = ready_made_->take();
    fetch_published(*source, ready, fd, what, take);
    if (!later) {
        prove_published(*source, ready, fd, what, [&] { take(0); });
        return true;
    }
    check_published(fd, what);
    store_.mark_unproved(layer.diff_id);
    std::lock_guard lock(mutex_);
    result_.unproved.push_back(ready.diff_id);
    return false;
}

/// One that was here before may have been another.
void Fetch::publish_proved(store::NewFile file, const Digest& diff_id) const {
    store_.publish_layer(std::move(file), diff_id);
    store_.clear_unproved(diff_id);
}

void Fetch::note_origin(const MissingLayer& layer, std::string origin) {
    std::lock_guard lock(mutex_);
    result_.origins.insert_or_assign(layer.diff_id, std::move(origin));
}

/// True when the layer has come ready-made, and is published here. Whatever is wrong with it, it can be converted.
bool Fetch::bring_published(size_t index) {
    const MissingLayer& layer = layers_[index];
    const oci::PublishedLayer* ready = published_ != nullptr ? published_->artifact.find(layer.diff_id) : nullptr;
    if (ready == nullptr) return false;
    set_state(index, LayerState::pulling);
    store::NewFile file = store_.new_file();
    std::atomic<uint64_t> taken = 0;
    auto count = counter(index, taken);
    auto take = [&](uint64_t bytes) {
        if (stop_) throw Error(cat(what_, ": stopped"));
        count(bytes);
        if (member_ != nullptr) member_->count_registry(bytes);
    };
    bool is_proved = false;
    try {
        is_proved = fetch_ready(index, *ready, file.fd(), take);
    } catch (const Error& problem) {
        if (stop_ || is_of_this_machine(problem)) throw;
        meter_.take_back(index, std::min(taken.load(), layer.blob.size));
        std::string line = cat(name_of(layer), " is converted here, since what is published of it cannot be used: ",
                               problem.what());
        debug::log("pull", line);
        meter_.warn(line);
        meter_.note_refused(line);
        return false;
    }
    set_state(index, LayerState::saving);
    if (auto pump = pump_for(layer, file.fd())) {
        pump->finish();
        member_->tell_sealed(layer.diff_id);
    }
    if (is_proved)
        publish_proved(std::move(file), layer.diff_id);
    else
        store_.publish_layer(std::move(file), layer.diff_id);
    meter_.note_published(index);
    note_origin(layer, origin_of(published_->place));
    debug::log("pull", name_of(layer), " came published, ", is_proved ? "and is proved" : "and is still to be proved");
    meter_.set_layer(index, LayerState::done);
    return true;
}

/// True when other nodes of the step have sent the layer, and it is published.
bool Fetch::receive(size_t index) {
    const MissingLayer& layer = layers_[index];
    if (role_of(layer) != share::Member::Role::receive) return false;
    meter_.set_layer(index, LayerState::pulling);
    store::NewFile file = store_.new_file();
    std::atomic<uint64_t> taken = 0;
    try {
        member_->receive(layer.diff_id, file.fd(), counter(index, taken));
        read_seal(file.fd(), name_of(layer));
    } catch (const Error& problem) {
        if (is_of_this_machine(problem)) throw;
        meter_.take_back(index, std::min(taken.load(), layer.blob.size));
        member_->layer(layer.diff_id).give_up();
        if (stop_) throw;
        // Else the tracker has decided so.
        if (role_of(layer) == share::Member::Role::receive) {
            debug::log("pull", name_of(layer), ": other nodes do not send it: ", problem.what());
            meter_.warn(cat(name_of(layer), " is pulled, since other nodes do not send it: ", problem.what()));
            member_->tell_failed(layer.diff_id, problem.what());
        }
        return false;
    }
    meter_.set_layer(index, LayerState::saving);
    publish_proved(std::move(file), layer.diff_id);
    member_->tell_done(layer.diff_id);
    meter_.note_from_peers(index);
    note_origin(layer, cat(member_->owner(layer.diff_id), ", through nodes of the step"));
    debug::log("pull", name_of(layer), " came from ", member_->owner(layer.diff_id), ", through nodes of the step");
    meter_.set_layer(index, LayerState::done);
    return true;
}

std::unique_ptr<share::ChunkPump> Fetch::pump_for(const MissingLayer& layer, int file) const {
    if (role_of(layer) != share::Member::Role::owner) return nullptr;
    std::string what = name_of(layer);
    return std::make_unique<share::ChunkPump>(member_->layer(layer.diff_id), share::descriptor_of(file, what), what);
}

/// The layer, converted from the bytes that its digest names. What a mirror sent wrong is asked of the next host, and
/// in the end of the registry itself.
Fetch::Brought Fetch::fetched(size_t index) {
    const MissingLayer& layer = layers_[index];
    auto source = sources_.take();
    for (;;) {
        store::NewFile file = store_.new_file();
        uint64_t taken = 0;
        try {
            auto pump = pump_for(layer, file.fd());
            oci::ConvertedLayer got = convert(*source, index, file.fd(), pump.get(), taken);
            refuse_other(layer, "digest", got.digest, layer.blob.digest);
            return {std::move(file), std::move(got), std::move(pump)};
        } catch (const SysError&) {
            throw;  // of this machine's disk or memory
        } catch (const oci::Unreachable&) {
            throw;  // of the last host
        } catch (const Error& problem) {
            std::string mirrors = stop_ ? "" : source->pass_over_senders();
            if (mirrors.empty()) throw;
            meter_.take_back(index, taken);
            meter_.warn(cat("mirror ", mirrors, " passed over: ", problem.what()));
        }
    }
}

oci::ConvertedLayer Fetch::convert(oci::Source& source, size_t index, int fd, share::ChunkPump* pump,
                                   uint64_t& taken) {
    const MissingLayer& layer = layers_[index];
    set_state(index, LayerState::pulling);
    oci::ConvertOptions options;
    options.pool = &pool_;
    options.windows = &windows_;
    if (pump != nullptr) options.on_final = [pump](uint64_t bytes) { pump->note(bytes); };
    oci::LayerConverter converter(fd, name_of(layer), options);
    auto take = [&](std::string_view data) {
        converter.write(data);
        meter_.advance_layer(index, data.size());
        if (member_ != nullptr) member_->count_registry(data.size());
        taken += data.size();
    };
    if (layer.blob.data)
        take(*layer.blob.data);
    else
        source.stream(layer.blob, take);
    set_state(index, LayerState::converting);
    return converter.finish();
}

void Fetch::refuse_other(const MissingLayer& layer, const char* kind, const Digest& is, const Digest& wanted) const {
    if (is != wanted) throw Error(cat(name_of(layer), ": its ", kind, " is ", is, " instead of ", wanted, "; refused"));
}

/// How many come from other nodes: they wait for these, and keep no CPU busy.
size_t received_layers(const std::vector<MissingLayer>& layers, const share::Member* member) {
    constexpr size_t limit = 64;
    auto is_received = [&](const MissingLayer& layer) {
        return member != nullptr && member->role(layer.diff_id) == share::Member::Role::receive;
    };
    return std::min<size_t>(limit, static_cast<size_t>(std::count_if(layers.begin(), layers.end(), is_received)));
}

}  // namespace

Fetched fetch_layers(const store::Store& store, oci::Source& source, const std::vector<MissingLayer>& layers,
                     const FetchSettings& settings, Meter& meter, const OtherSources& others) {
    if (layers.empty()) return {};
    const std::string& what = settings.what;
    std::vector<LayerStatus> shown;
    for (const MissingLayer& layer : layers) shown.push_back({layer.blob.digest.text(), layer.blob.size});
    meter.begin_layers(cat("pulling ", what), shown);
    Capacity capacity = capacity_for(settings.limits, usable_cpus());
    // Twice as many workers as connections: the others are at the end of a layer, or wait.
    size_t workers = std::min<size_t>(2 * capacity.layers + received_layers(layers, others.member), layers.size());
    size_t connections = std::min<size_t>(capacity.layers, layers.size());
    Sources sources(source, connections);
    std::optional<Sources> ready_made;
    if (others.published != nullptr) ready_made.emplace(*others.published->source, connections);
    squash::CompressorPool pool(settings.limits.compression, capacity.pool);
    Fetch fetch(store, sources, ready_made ? &*ready_made : nullptr, layers, pool, settings, meter, others);
    {
        // Joined at the end of the block.
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < workers; ++i) threads.emplace_back(&Fetch::work, &fetch);
    }
    fetch.rethrow();
    return fetch.take_result();
}

}  // namespace berth::pull
