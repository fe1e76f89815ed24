// Fills a new home with what the image has for new homes.
#pragma once
#include "runtime/mount/rootfs/root.hh"

namespace berth::mount {

/// Copies the regular files, directories and symlinks of the image's /etc/skel, if it has one, into `home`. What is of
/// another kind, too deep, or over a megabyte is left out. Throws SysError.
void copy_skeleton(const Root& root, int home);

}  // namespace berth::mount
