// Executes a UpperLayer: writes it into the empty directory that will be the upper layer of a container's overlay.
#pragma once
#include "runtime/mount/rootfs/upper_layer.hh"

namespace berth::mount {

/// Makes every object of `layer` below `upper`, with the attributes that `index` has for those of the image. Wants a
/// umask of 0. Throws Error.
void write_upper(const UpperLayer& layer, const squash::Index& index, int upper);

}  // namespace berth::mount
