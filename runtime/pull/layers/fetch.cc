#include "runtime/pull/layers/fetch.hh"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "runtime/base/cpus.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/store/turn.hh"

namespace berth::pull {

namespace {

using Role = LayerFetch::Role;

/// How long the nodes of a step wait for one that has to wait for another pull.
constexpr auto owners_patience = std::chrono::seconds(20);

/// The largest first: a large one that comes last would be alone at its end, and unpacks in one thread. What other
/// nodes wait for goes before what this one waits for: else two could wait for each other.
std::vector<size_t> order_of(const LayerFetch& fetch) {
    std::vector<size_t> out(fetch.layers.size());
    std::iota(out.begin(), out.end(), size_t{0});
    std::ranges::stable_sort(out, std::greater(), [&](size_t i) { return fetch.layers[i].blob.size; });
    std::ranges::stable_partition(out, [&](size_t i) { return fetch.role(i) != Role::receive; });
    return out;
}

class Workers {
  public:
    Workers(LayerFetch& fetch, const std::vector<std::unique_ptr<LayerSource>>& sources)
        : fetch_(fetch), sources_(sources), order_(order_of(fetch)) {}

    /// Returns when no layer is left, and throws what failed first.
    void run(size_t count) {
        {
            // Joined at the end of the block.
            std::vector<std::jthread> threads;
            for (size_t i = 0; i < count; ++i) threads.emplace_back(&Workers::work, this);
        }
        if (failure_) std::rethrow_exception(failure_);
    }

  private:
    void work() noexcept;
    void bring(size_t index);
    store::Turn wait_for_turn(size_t index);

    LayerFetch& fetch_;
    const std::vector<std::unique_ptr<LayerSource>>& sources_;
    std::vector<size_t> order_;
    std::atomic<size_t> next_ = 0;
    std::mutex mutex_;
    std::exception_ptr failure_;
};

void Workers::work() noexcept {
    try {
        for (size_t i = next_++; i < order_.size() && !fetch_.stop; i = next_++) bring(order_[i]);
    } catch (...) {
        std::lock_guard lock(mutex_);
        // Later ones are mostly the "stopped" of the other workers.
        if (!failure_) failure_ = std::current_exception();
        fetch_.stop = true;
    }
}

/// Another image that is being pulled may have the same layer; its pull may also die, or wait for another node that
/// waits for this one.
store::Turn Workers::wait_for_turn(size_t index) {
    const Digest& diff_id = fetch_.layers[index].diff_id;
    auto since = std::chrono::steady_clock::now();
    for (store::TurnQueue queue(fetch_.store, diff_id);;) {
        if (store::Turn turn = queue.try_take()) return turn;
        fetch_.check_stop();
        if (fetch_.role(index) == Role::owner && std::chrono::steady_clock::now() - since > owners_patience)
            fetch_.nodes.leave_to_others(diff_id, "another pull on this node holds it");
        fetch_.meter.set_layer(index, LayerState::waiting, queue.holder());
        std::this_thread::sleep_for(queue.pause());
    }
}

void Workers::bring(size_t index) {
    const MissingLayer& layer = fetch_.layers[index];
    store::Turn turn = wait_for_turn(index);
    Role role = fetch_.role(index);
    debug::log("pull", fetch_.name(index), ": bytes ", layer.blob.size, ", ",
               role == Role::receive ? "other nodes of the step send it"
               : role == Role::owner ? "this node brings it for the step"
                                     : "this node brings it");
    if (has_own_layer(fetch_.store, layer.diff_id)) {
        fetch_.nodes.leave_to_others(layer.diff_id, "another pull on this node has brought it");
        return fetch_.meter.set_layer(index, LayerState::present);
    }
    try {
        for (const auto& source : sources_)
            if (source->bring(index)) return;
    } catch (const std::exception& problem) {
        if (fetch_.role(index) != Role::receive) fetch_.nodes.tell_failed(layer.diff_id, problem.what());
        throw;
    }
}

/// How many come from other nodes: they wait for these, and keep no CPU busy.
size_t received_layers(const LayerFetch& fetch) {
    constexpr size_t limit = 64;
    size_t out = 0;
    for (size_t i = 0; i < fetch.layers.size(); ++i) out += fetch.role(i) == Role::receive;
    return std::min(limit, out);
}

}  // namespace

Fetched fetch_layers(const store::Store& store, oci::Source& source, const std::vector<MissingLayer>& layers,
                     const FetchSettings& settings, Meter& meter, nodes::Member& nodes, const Published* published) {
    if (layers.empty()) return {};
    std::vector<LayerStatus> shown;
    for (const MissingLayer& layer : layers) shown.push_back({layer.blob.digest.text(), layer.blob.size});
    meter.begin_layers(cat("pulling ", settings.what), shown);
    Capacity capacity = capacity_for(settings.limits, usable_cpus());
    LayerFetch fetch(store, layers, settings, meter, nodes);
    // Twice as many workers as connections: the others are at the end of a layer, or wait.
    size_t workers = std::min<size_t>(2 * capacity.layers + received_layers(fetch), layers.size());
    size_t connections = std::min<size_t>(capacity.layers, layers.size());
    squash::CompressorPool pool(settings.limits.compression, capacity.pool);
    std::vector<std::unique_ptr<LayerSource>> sources;
    sources.push_back(from_nodes(fetch));
    if (published != nullptr) sources.push_back(from_artifact(fetch, *published, connections));
    sources.push_back(from_registry(fetch, source, connections, pool, settings.limits.memory));
    Workers(fetch, sources).run(workers);
    return fetch.take_result();
}

}  // namespace berth::pull
