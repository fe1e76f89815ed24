// Starts that do not wait for the layers of their image (store.start, ADR 0151): a signed artifact has the index and
// the sums of all parts; layers come while the step runs, what it reads first. The nodes of a step bring them together
// (ADR 0152).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/pull/image/options.hh"
#include "runtime/pull/layers/origins.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/layers/unproved.hh"
#include "runtime/pull/nodes/peer/lazy_exchange.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// Brings what a start needs into the store's partial/: true when the image with these layers can be started now.
/// False, with a note, when it cannot: an artifact without an index, or one of another release; a registry that sends
/// no parts of blobs; layers in the store that are not those that were published. Throws Error when the store cannot be
/// written to. `with_profile`: what a start reads first is brought now, too.
bool prepare_early(const store::Store& store, Published& published, const Digest& manifest,
                   const std::vector<Digest>& diff_ids, bool with_profile, Meter& meter);
/// Asks for all that prepare_early() would, and does nothing with it: for other nodes. Throws Error.
void read_early_parts(Published& published);

/// An image whose layers are all here.
struct Completed {
    std::optional<Unproved> unproved = {};
    std::vector<Digest> layers = {};  ///< their diff_ids, in the order of the index
    LayerOrigins origins = {};        ///< of those
    /// Serves the other nodes until it ends; null where there are none.
    std::unique_ptr<nodes::LazyExchange> exchange = {};
};

/// Brings the layers of an image that has been prepared, and publishes them in the store: what is waited for comes
/// first. Takes up what another process has left, or waits until one has done it. With the other nodes of the step
/// where `options.share` says so. Throws Error when something cannot be had: who waits for it has been told.
Completed complete_early(const store::Store& store, const plan::Reference& image, const Digest& manifest,
                         const Options& options, Meter& meter);

/// The proofs of what complete_early() has brought, by `prove`, and the end: of the nodes of a step each proves some of
/// the layers and believes the others' word for the rest, as it does for the layers of a shared pull. Returns when no
/// other node needs this one.
void prove_together(const store::Store& store, Completed& completed, const std::function<void(Unproved&)>& prove);

}  // namespace berth::pull
