// Layers that run on their publisher's signature, and are proved afterwards.
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
    Digest image;                         ///< its manifest
    std::string what;                     ///< the image, in messages
    oci::Artifact artifact;
    std::unique_ptr<oci::Source> source;  ///< of the artifact
    std::vector<Digest> layers;           ///< their diff_ids
};

/// True when layers of the image have still to be proved, or were not what they should be: then a signature is no
/// reason to use what is published of it.
bool has_unproved(const store::Store& store, const Digest& image);
/// Of all images of the store itself: other nodes get no such layer from here.
std::vector<Digest> unproved_layers(const store::Store& store);
/// Keeps in the image's folder which layers have to be proved; none: all are.
void note_unproved(const store::Store& store, const Digest& image, const std::vector<Digest>& layers);

/// Proves the layers. One that is not what converting would make is removed from the store, so that the next pull
/// converts it: a line for each. What cannot be known now, since the registry does not answer, is left as it is.
/// Throws Error when the store cannot be written to.
std::vector<std::string> prove(const store::Store& store, const Unproved& unproved);

}  // namespace berth::pull
