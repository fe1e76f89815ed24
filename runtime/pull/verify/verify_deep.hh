// Makes the diff_ids of stored layers again, which a store's own hashes cannot tell: that the layers are the image's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/pull/image/options.hh"
#include "runtime/pull/verify/verify.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

/// How the registry of an image is asked.
using OptionsFor = std::function<Options(const plan::Reference& image)>;

/// Holds each layer of the images to its tar stream: that which is made from what is published of it, else the
/// registry's own layer, which is fetched for it. `images`: as Inventory::find() takes them; none: all. A layer that is
/// something else is removed. Adds to `out` what it finds. Throws Error for an image that is not in the store, and when
/// the store cannot be read or written.
void verify_deep(const store::Store& store, const std::vector<std::string>& images, const OptionsFor& options,
                 Meter& meter, Verified& out);

}  // namespace berth::pull
