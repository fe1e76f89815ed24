// The node's verbs libraries for an image whose own do not know the node's adapters.
#pragma once
#include "hooks/host.hh"
#include "hooks/rootfs.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// Who made the edits of this family.
inline const plan::Origin by_rdma = plan::Origin::of_site("hook rdma");

/// libibverbs, its providers and their list: one set that fits together, so all of it or, with a warning, nothing.
/// `efa`: also Amazon's libfabric and Open MPI in /opt/amazon/efa, where the node has them.
void add_userspace(plan::ContainerEdits& out, const Host& host, const Rootfs& image, bool efa);

}  // namespace berth::hooks
