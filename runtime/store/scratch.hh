// What is under way in the store's tmp/ folder: named after its host and process, held by flock, swept when its maker
// is dead.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth::store {

/// Keeps a sweep away while an object is made and locked: between the two it would look abandoned.
class ScratchGuard {
  public:
    explicit ScratchGuard(int tmp);
    ~ScratchGuard();
    ScratchGuard(const ScratchGuard&) = delete;
    ScratchGuard& operator=(const ScratchGuard&) = delete;

  private:
    int tmp_;
};

/// A directory in tmp/, removed with its files unless it was published. `tmp` is borrowed.
class Scratch {
  public:
    /// `where` names the folder in errors.
    Scratch(int tmp, const std::string& where);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    int fd() const { return fd_.get(); }
    const std::string& name() const { return name_; }
    /// It has got another name: nothing is removed any more.
    void published() { name_.clear(); }

  private:
    int tmp_;
    std::string name_;
    Fd fd_;
};

/// A name that no other process uses: HOST.PID.RANDOM.
std::string scratch_name();

/// "process 12 on host7" of HOST.PID or HOST.PID.RANDOM; "another process" of anything else. For people.
std::string maker_of(const std::string& name);

/// Removes an object of tmp/, a file or a directory with all that is in it. False when it is still there, or another
/// process removed it.
bool remove_scratch(int tmp, const std::string& name);

/// Removes the objects of this host that no process holds, and those of any host that are a week old. Does nothing
/// while something is being made, or where there are no locks. Returns the number removed.
size_t sweep_scratch(int tmp);

}  // namespace berth::store
