// Images as one squashfs file, for sites that set mount.engine to "squashfuse".
#pragma once
#include <string>

#include "runtime/images/open.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// Gives `opened` the one file with all of the image that squashfuse_ll serves to a container with the ids of
/// `identity`; nothing for other engines, and for a directory. A squashfs file that shows the same as it is serves
/// itself; else it is made in the store first if nobody has: one process does it while the others wait. `text` is the
/// image as it was asked for. To be called before start_container(). Throws Error.
void use_flat(OpenedImage& opened, const std::string& text, const plan::Identity& identity, const plan::Caller& caller,
              const plan::Site& site, const PullWatch& watch);

}  // namespace berth
