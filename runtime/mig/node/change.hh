// Divides a job's GPUs, and brings back what they were.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/mig/node/driver.hh"
#include "runtime/mig/node/state.hh"
#include "runtime/request/mig.hh"

namespace berth::mig {

/// How it is done.
struct Manner {
    /// Told each step before it is made.
    std::function<void(const Gpu&, const std::string& step)> told = [](const Gpu&, const std::string&) {};
    bool dry_run = false;  ///< nothing is changed, neither GPUs nor records
    /// How long processes that still use what is to be destroyed may take to end, for all GPUs together.
    std::chrono::milliseconds patience = std::chrono::seconds(10);
    /// Waits a moment for them; nothing is changed meanwhile. Best without the state's lock.
    std::function<void()> pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); };
};

/// A GPU is left as no record says that it was: more than a job is concerned.
class LeftChanged : public Error {
    using Error::Error;
};

/// Divides each of the GPUs as asked for. Throws Error when that cannot be, and then the GPUs are what they were;
/// throws LeftChanged when they are not. A GPU with the record of an earlier job keeps what that record says was first.
void apply(const Driver& driver, const State& state, uint32_t job, const plan::MigRequest& request,
           const std::vector<unsigned>& minors, const Manner& manner);

/// Brings back what the GPUs of these records were first, and drops the records. Goes on after a GPU where that cannot
/// be, keeps its record and throws Error at the end.
void restore(const Driver& driver, const State& state, const std::vector<Record>& records, const Manner& manner);

/// The GPU with this minor. Throws Error.
Gpu gpu_with(const Driver& driver, unsigned minor);

}  // namespace berth::mig
