// A process beside a container that does what nobody waits for. It has no part in serving, so that a kill ends it as
// any task.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/memory_room.hh"
#include "runtime/mount/fuse/prefetcher.hh"

namespace berth::mount {

/// How much memory is left, read of the node's /proc and /sys/fs/cgroup, which are opened while the root is the node's.
class NodeMemory {
  public:
    NodeMemory();
    std::vector<int> descriptors() const { return {proc_.get(), groups_.get()}; }
    MemoryRoom room() const;

  private:
    std::optional<std::string> read(const std::string& path) const;

    Fd proc_, groups_;
    std::string membership_;
};

/// What such a process does, with its end of the channel and the root of the mount that it is shown.
using IdleWork = void(int channel, int root, const NodeMemory& node);

/// Starts it as start_prefetcher() does, with these descriptors and nothing else of the caller's; show_mount() begins
/// its work.
Prefetcher start_idle_process(std::vector<int> kept, const std::function<void()>& confine,
                              const std::function<IdleWork>& work);

}  // namespace berth::mount
