// A cgroup of our own for what runs for a step: made, entered and ended by root. Nothing of Slurm in it, so that tests
// can run it.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "spank/cgroup.hh"

namespace berth::spank {

/// The group, by its descriptors: a path is looked up once. Empty: there is none.
class Leaf {
  public:
    Leaf() = default;

    /// Makes the group, or takes the one that is there. Throws Error when it cannot be made: no cgroups at that place,
    /// no right to make one.
    static Leaf make(const LeafPlace& place);

    /// The group `name` below the group that `parent` is open at; empty when there is none. Throws SysError.
    static Leaf open(int parent, const std::string& name);

    explicit operator bool() const { return bool(folder_); }

    /// The group's folder, in which root opens what it needs when it needs it: slurmstepd's descriptors are also the
    /// tasks' for a moment, and who has cgroup.procs open for writing can move any process. -1 for an empty leaf.
    int folder() const { return folder_.get(); }

    /// Moves a process into the group, with its threads; 0 is the caller. False when that is refused: it has ended, or
    /// the group has gone.
    bool take(pid_t process) const;

    /// The processes in the group, however many; none for an empty leaf. Throws SysError.
    std::vector<pid_t> members() const;

    /// Kills every process in the group, also what they fork meanwhile. Returns before they have ended.
    void kill_all() const;

    /// Removes the group when nothing is in it; it is empty afterwards. False when something is.
    bool remove_empty();

    /// Kills what is in the group, waits for its end and removes the group; it is empty afterwards. False when
    /// something is still there after `timeout_ms`.
    bool end(int timeout_ms);

  private:
    Leaf(Fd parent, std::string name, Fd folder)
        : parent_(std::move(parent)), name_(std::move(name)), folder_(std::move(folder)) {}
    void kill_one_by_one() const;
    bool freeze(bool frozen) const;

    Fd parent_;
    std::string name_;
    Fd folder_;
};

/// As Leaf::take() for any group, by a descriptor of its folder. With 0 it makes only system calls, for a child after a
/// fork.
bool move_process(int folder, pid_t process);

/// The processes of a group, by a descriptor of its folder. Throws SysError.
std::vector<pid_t> processes_in(int folder);

}  // namespace berth::spank
