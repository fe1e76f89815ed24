// Fetches the missing layers of an image, several at a time, each straight from its source into its squashfs file.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "runtime/oci/manifest.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/image/capacity.hh"
#include "runtime/pull/layers/origins.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/progress/progress.hh"
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

/// Where layers come from beside the registry; null where there is no such thing.
struct OtherSources {
    share::Member* member = nullptr;        ///< the other nodes of the step, and theirs from here
    const Published* published = nullptr;   ///< layers that need no converting
};

/// What fetch_layers() has brought.
struct Fetched {
    std::vector<Digest> unproved;  ///< published layers that the site trusts, which have to be proved afterwards
    LayerOrigins origins;  ///< of all layers, empty ones of those that were converted here
};

/// Every layer is verified (size, digest, diff_id) before it is published, but for Fetched::unproved. The first failure
/// stops the others and is thrown.
/// `source` and its siblings are used, each with a connection that it keeps from layer to layer.
Fetched fetch_layers(const store::Store& store, oci::Source& source, const std::vector<MissingLayer>& layers,
                     const FetchSettings& settings, Meter& meter, const OtherSources& others = {});

}  // namespace berth::pull
