// From what an image's name means down to the manifest for a machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/oci/manifest.hh"
#include "runtime/oci/source/source.hh"

namespace berth::pull {

struct Chain {
    std::vector<Digest> indexes;  ///< the image indexes on the way
    oci::Document document;       ///< the manifest, as the source sent it
    oci::Manifest manifest;
};

/// Asks `source` for the document with the digest, or what its reference means, and where that is an image index, for
/// what it has for `machine`. Throws Error naming `what`.
Chain find_chain(oci::Source& source, const std::optional<Digest>& digest, const oci::Machine& machine,
                 const std::string& what);

}  // namespace berth::pull
