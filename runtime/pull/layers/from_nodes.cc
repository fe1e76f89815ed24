#include <algorithm>

#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/layers/layer_source.hh"

namespace berth::pull {

namespace {

class FromNodes : public LayerSource {
  public:
    explicit FromNodes(LayerFetch& fetch) : fetch_(fetch) {}

    bool bring(size_t index) override {
        if (fetch_.role(index) == LayerFetch::Role::receive && receive(index)) return true;
        // Who has been told to take it from here is not to wait.
        if (fetch_.role(index) == LayerFetch::Role::alone) fetch_.nodes.give_up(fetch_.layers[index].diff_id);
        return false;
    }

  private:
    bool receive(size_t index);

    LayerFetch& fetch_;
};

bool FromNodes::receive(size_t index) {
    const MissingLayer& layer = fetch_.layers[index];
    nodes::Member& nodes = fetch_.nodes;
    fetch_.meter.set_layer(index, LayerState::pulling);
    store::NewFile file = fetch_.store.new_file();
    std::atomic<uint64_t> taken = 0;
    try {
        nodes.receive(layer.diff_id, file.fd(), fetch_.counter(index, taken));
        read_seal(file.fd(), fetch_.name(index));
    } catch (const Error& problem) {
        if (is_of_this_machine(problem)) throw;
        fetch_.meter.take_back(index, std::min(taken.load(), layer.blob.size));
        nodes.give_up(layer.diff_id);
        if (fetch_.stop) throw;
        // Else the tracker has decided so.
        if (fetch_.role(index) == LayerFetch::Role::receive) {
            debug::log("pull", fetch_.name(index), ": other nodes do not send it: ", problem.what());
            fetch_.meter.warn(
                cat(fetch_.name(index), " is pulled, since other nodes do not send it: ", problem.what()));
            nodes.tell_failed(layer.diff_id, problem.what());
        }
        return false;
    }
    fetch_.meter.set_layer(index, LayerState::saving);
    fetch_.meter.note_from_peers(index);
    std::string origin = cat(nodes.owner(layer.diff_id), ", through nodes of the step");
    fetch_.keep(index, std::move(file), origin, "came from " + origin);
    nodes.tell_done(layer.diff_id);
    return true;
}

}  // namespace

std::unique_ptr<LayerSource> from_nodes(LayerFetch& fetch) {
    return std::make_unique<FromNodes>(fetch);
}

}  // namespace berth::pull
