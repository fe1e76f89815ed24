// Hashes everything in a store again. What is damaged goes, so that the next pull or a repair brings it anew.
#pragma once
#include <string>
#include <vector>

#include "runtime/pull/layers/origins.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct Verified {
    size_t images = 0;
    size_t layers = 0;
    size_t proved = 0;                  ///< layers whose diff_id was made again
    std::vector<std::string> problems;  ///< a line each
    std::vector<std::string> unchecked;  ///< a line for each layer that cannot be checked here or now
    LayerOrigins origins;          ///< of all layers, also of those that have gone
    std::vector<std::string> from_elsewhere;  ///< a line for each image with layers that were not converted here
    std::vector<Digest> unproved;  ///< images that run on their publisher's signature so far; see Store::mark_unproved
    /// The images that cannot be started any more, as references that bring them back; without a registry when no tag
    /// says where they came from.
    std::vector<plan::Reference> incomplete;
};

/// Checks layers by their seals, manifests by their names, configs by their manifests, and indexes by making them
/// again. Damaged layers, manifests and configs are removed, an index is replaced. `meter` is told of the bytes. Throws
/// Error when the store cannot be read or written.
Verified verify(const store::Store& store, Meter& meter);

}  // namespace berth::pull
