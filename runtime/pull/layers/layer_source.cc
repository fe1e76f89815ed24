#include "runtime/pull/layers/layer_source.hh"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "runtime/base/debug_log.hh"

namespace berth::pull {

namespace {

/// What takes long and brings nothing that could be sent: the registry's first byte, hashing, a slow disk.
constexpr auto quiet_work = std::chrono::seconds(60);

}  // namespace

bool is_of_this_machine(const Error& problem) {
    const auto* ours = dynamic_cast<const SysError*>(&problem);
    return ours != nullptr && ours->number() != ENOSPC && ours->number() != EDQUOT && ours->number() != EFBIG;
}

void LayerFetch::check_stop() const {
    if (stop) throw Error(cat(what_, ": stopped"));
}

void LayerFetch::set_state(size_t index, LayerState state) {
    nodes.be_at_work(quiet_work);
    meter.set_layer(index, state);
}

std::function<void(uint64_t)> LayerFetch::counter(size_t index, std::atomic<uint64_t>& taken) const {
    return [this, index, &taken](uint64_t bytes) {
        uint64_t before = taken.fetch_add(bytes), total = layers[index].blob.size;
        meter.advance_layer(index, std::min(before + bytes, total) - std::min(before, total));
    };
}

std::unique_ptr<nodes::ChunkPump> LayerFetch::pump(size_t index, int file) const {
    if (role(index) != Role::owner) return nullptr;
    return std::make_unique<nodes::ChunkPump>(nodes.layer(layers[index].diff_id),
                                              nodes::descriptor_of(file, name(index)), name(index));
}

void LayerFetch::finish(size_t index, nodes::ChunkPump* pump) {
    if (pump == nullptr) return;
    pump->finish();
    nodes.tell_complete(layers[index].diff_id);
}

void LayerFetch::keep(size_t index, store::NewFile file, std::string origin, const std::string& how, bool is_proved) {
    const Digest& diff_id = layers[index].diff_id;
    if (!is_proved) store.mark_unproved(diff_id);
    store.publish_layer(std::move(file), diff_id);
    // One that was here before may have been another.
    if (is_proved) store.clear_unproved(diff_id);
    debug::log("pull", name(index), " ", how);
    meter.set_layer(index, LayerState::done);
    std::lock_guard lock(mutex_);
    result_.origins.insert_or_assign(diff_id, std::move(origin));
    if (!is_proved) result_.unproved.push_back(diff_id);
}

}  // namespace berth::pull
