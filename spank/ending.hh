// The end of a step's helper and of its leaf, from the end of the last task on: Slurm meanwhile waits for processes
// that may wait for that helper.
#pragma once
#include <thread>

#include "spank/leaf.hh"

namespace berth::spank {

class Ending {
  public:
    /// Starts a thread that gives the helper (a pidfd, the caller's) five seconds to end and then ends it, with all
    /// that is in `leaf` (the caller's; null: none ends with the step). The helper must have been asked to go. A second
    /// call does nothing.
    void begin(int helper, Leaf* leaf);

    /// Waits until that is done: mostly not at all, at most some 16 seconds for what cannot be killed. Does it itself
    /// when the thread has gone without it, with the process in which Slurm called begin() (contain_spank).
    void finish();

  private:
    void end_both() const;

    std::thread thread_;
    int helper_ = -1;
    Leaf* leaf_ = nullptr;
};

}  // namespace berth::spank
