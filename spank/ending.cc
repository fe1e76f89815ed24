#include "spank/ending.hh"

#include <signal.h>

#include <system_error>

#include "spank/helper.hh"

namespace berth::spank {

namespace {

/// What the helper takes to end a container whose processes hang, and a second.
constexpr int helper_timeout_ms = 5'000;
constexpr int leaf_timeout_ms = 2'000;

}  // namespace

void Ending::end_both() const {
    wait_for_helper(helper_, helper_timeout_ms);
    if (leaf_ != nullptr) leaf_->end(leaf_timeout_ms);
}

void Ending::begin(int helper, Leaf* leaf) {
    if (helper_ >= 0) return;
    helper_ = helper;
    leaf_ = leaf;
    // The thread must take none of slurmstepd's signals.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] { end_both(); });
    } catch (const std::system_error&) {
        // No thread to be had: finish() does it, after Slurm's wait.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Ending::finish() {
    if (thread_.joinable()) thread_.join();
    if (helper_ >= 0) end_both();
}

}  // namespace berth::spank
