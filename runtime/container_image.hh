// An image that is ready to be served.
#pragma once
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index.hh"

namespace berth {

struct ContainerImage {
    squash::Index index;
    std::vector<Fd> layers;  ///< in the order of index.layers()
    Fd lease = Fd();         ///< keeps the image in its store; empty for an image that is in none
};

}  // namespace berth
