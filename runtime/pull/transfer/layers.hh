// Fetches the missing layers of an image, several at a time, each straight from its source into its squashfs file.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "runtime/oci/manifest.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/share/member.hh"
#include "runtime/pull/transfer/capacity.hh"
#include "runtime/store/store.hh"

namespace berth::pull {

struct MissingLayer {
    oci::Descriptor blob;
    Digest diff_id;
};

/// Every layer is verified (size, digest, diff_id) before it is published. The first failure stops the others and is
/// thrown. `source` and its siblings are used, each with a connection that it keeps from layer to layer. `stop` is the
/// flag that a registry's options point to. With `member` layers come from the other nodes of the step as well, and
/// theirs from here.
void fetch_layers(const store::Store& store, oci::Source& source, const std::vector<MissingLayer>& layers,
                  const PullLimits& limits, std::atomic<bool>& stop, const std::string& what, Meter& meter,
                  share::Member* member = nullptr);

}  // namespace berth::pull
