// Executes a UpperLayer: writes it into the empty directory that will be the upper layer of a container's overlay.
#pragma once
#include "runtime/config/words.hh"
#include "runtime/mount/rootfs/upper_layer.hh"

namespace berth::mount {

/// Makes every object of `layer` below `upper`, with the attributes that `index` has for those of the image, their
/// modes as containers show them. Wants a umask of 0. Throws Error.
void write_upper(const UpperLayer& layer, const squash::Index& index, plan::ImageModes modes, int upper);

}  // namespace berth::mount
