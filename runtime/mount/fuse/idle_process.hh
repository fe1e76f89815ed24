// A process beside a container that does what nobody waits for. It has no part in serving, so that a kill ends it as
// any task.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/memory_room.hh"
#include "runtime/base/pid.hh"

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

struct IdleProcess {
    Pid process;  ///< a child that no wait for any child sees; empty: there is none
    Fd channel;   ///< to it
};

/// What such a process does, with its end of the channel and the root of the mount that it is shown.
using IdleWork = void(int channel, int root, const NodeMemory& node);

/// Starts the process, which waits for show_mount(), with these descriptors and nothing else of the caller's; to be
/// called before the mount is there, by a process of one thread. `confine` gives up all privileges there. Where it
/// cannot be started there is none.
IdleProcess start_idle_process(std::vector<int> kept, const std::function<void()>& confine,
                               const std::function<IdleWork>& work);

/// Gives it the root of the mount (O_PATH), with which its work begins.
void show_mount(IdleProcess& process, int root) noexcept;

}  // namespace berth::mount
