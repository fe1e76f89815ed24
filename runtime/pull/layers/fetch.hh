// Fetches the missing layers of an image, several at a time, each straight from its source into its squashfs file.
#pragma once
#include <vector>

#include "runtime/pull/layers/layer_source.hh"

namespace berth::pull {

/// Every layer is verified (size, digest, diff_id) before it is published, but for Fetched::unproved. The first failure
/// stops the others and is thrown. `nodes` are the others of the step, which get layers from here, too; `published`
/// may be null. `source` and its siblings are used, each with a connection that it keeps from layer to layer.
Fetched fetch_layers(const store::Store& store, oci::Source& source, const std::vector<MissingLayer>& layers,
                     const FetchSettings& settings, Meter& meter, nodes::Member& nodes, const Published* published);

}  // namespace berth::pull
