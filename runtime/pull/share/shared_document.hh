// What a registry says about an image, as a node passes it on to others.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/digest.hh"

namespace berth::pull::share {

/// A manifest, image index or config, as the registry sent it.
struct SharedDocument {
    Digest digest;
    std::string content_type;  ///< may be empty
    std::string bytes;
};

using DocumentList = std::vector<SharedDocument>;

}  // namespace berth::pull::share
