// A way by which layers of an image come into the store: from other nodes of the step, published, or converted from the
// registry. Each is tried in turn (fetch.hh).
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/layers/origins.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct MissingLayer {
    oci::Descriptor blob;
    Digest diff_id;
};

struct FetchSettings {
    const PullLimits& limits;
    std::atomic<bool>& stop;  ///< the flag that a registry's options point to
    std::string what;         ///< the image, in messages
};

/// What has been brought.
struct Fetched {
    std::vector<Digest> unproved;  ///< published layers that the site trusts, which have to be proved afterwards
    LayerOrigins origins;          ///< of all layers, empty ones of those that were converted here
};

/// What the sources of one fetch have in common. Layers are named by their index. Any thread.
class LayerFetch {
  public:
    using Role = nodes::Member::Role;

    LayerFetch(const store::Store& its_store, const std::vector<MissingLayer>& its_layers,
               const FetchSettings& settings, Meter& its_meter, nodes::Member& its_nodes)
        : store(its_store),
          layers(its_layers),
          meter(its_meter),
          nodes(its_nodes),
          stop(settings.stop),
          what_(settings.what) {}

    std::string name(size_t index) const { return cat(what_, ", layer ", layers[index].blob.digest); }
    Role role(size_t index) const { return nodes.role(layers[index].diff_id); }
    void check_stop() const;
    /// Of a layer that this node brings. The other nodes of the step do not take it for dead while it works.
    void set_state(size_t index, LayerState state);
    /// Counts bytes of another form of the layer than the blob, whose size people have been told.
    std::function<void(uint64_t)> counter(size_t index, std::atomic<uint64_t>& taken) const;
    /// Makes chunks of what is written to `file`; null where no other node takes the layer from here.
    std::unique_ptr<nodes::ChunkPump> pump(size_t index, int file) const;
    /// The file is whole, and other nodes get the rest of it. `pump` may be null.
    void finish(size_t index, nodes::ChunkPump* pump);
    /// The layer is one of the store from now on. `how` it came is for the debug log. One that is not proved yet is
    /// marked as such: it runs on its publisher's signature.
    void keep(size_t index, store::NewFile file, std::string origin, const std::string& how, bool is_proved = true);
    Fetched take_result() { return std::move(result_); }

    const store::Store& store;
    const std::vector<MissingLayer>& layers;
    Meter& meter;
    nodes::Member& nodes;
    std::atomic<bool>& stop;

  private:
    std::string what_;
    std::mutex mutex_;
    Fetched result_;
};

class LayerSource {
  public:
    virtual ~LayerSource() = default;
    /// True when the layer has come from here, and is in the store. False when the next source is to be tried: people
    /// have been told why. Throws Error where that would not help. Any thread.
    virtual bool bring(size_t index) = 0;
};

/// The other nodes of the step, where they bring the layer.
std::unique_ptr<LayerSource> from_nodes(LayerFetch& fetch);
/// Published layers, which need no converting.
std::unique_ptr<LayerSource> from_artifact(LayerFetch& fetch, const Published& published, size_t connections);
/// The image's own source, whose layers are converted.
std::unique_ptr<LayerSource> from_registry(LayerFetch& fetch, oci::Source& source, size_t connections,
                                           squash::CompressorPool& pool, uint64_t memory);

/// True for a failure of this node's disk or memory: no other source would help. A full disk does not count, since the
/// layer may be smaller when it is converted here.
bool is_of_this_machine(const Error& problem);

}  // namespace berth::pull
