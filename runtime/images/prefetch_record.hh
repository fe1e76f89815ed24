// The list of what starts of an image read first: found for a start, and kept at its end.
#pragma once
#include "runtime/config/site.hh"
#include "runtime/images/opened.hh"
#include "runtime/store/store.hh"

namespace berth {

/// Has the container that is started of `opened` log its reads, and read ahead what earlier ones have read. Without
/// effect on an image whose layers have still to come, and on a directory. A list that is older than a week is learnt
/// anew: its next start is not helped, and what that one has read is the list. Where `hot` wants it, it has what is
/// kept of the list as files of the node, shown with `modes`, or has that written. Throws nothing: a start is as well
/// without.
void prefetch_known_reads(OpenedImage& opened, store::Store store, const store::HotLimits& hot = {},
                          plan::ImageModes modes = plan::ImageModes::enroot) noexcept;

/// How much of images is kept unpacked. Nothing where a site proves what images are: the user could change these files.
/// Pure.
store::HotLimits hot_limits(const plan::Site& site);

}  // namespace berth
