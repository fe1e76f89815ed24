// Layers that run on their publisher's signature, and are proved afterwards. The store has a mark for each.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/oci/artifact.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// What a pull leaves to be proved.
struct Unproved {
    std::string what;                     ///< the image, in messages
    oci::Artifact artifact;
    std::unique_ptr<oci::Source> source;  ///< of the artifact
    std::vector<Digest> layers;           ///< their diff_ids
};

/// Proves the layers. One that is not what converting would make is removed from the store, so that the next pull
/// converts it: a line for each, and its mark stays, so that no signature counts for it again. What cannot be known
/// now, since the registry does not answer, is left as it is. Throws Error when the store cannot be written to.
std::vector<std::string> prove(const store::Store& store, const Unproved& unproved);

}  // namespace berth::pull
