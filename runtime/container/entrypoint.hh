// The image's entrypoint, run once for a step before its tasks: what it makes of the environment is kept for them.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/container/start.hh"
#include "runtime/plan/plan.hh"

namespace berth {

struct EntrypointRun {
    const StartedContainer& container;
    std::vector<std::string> words;        ///< the entrypoint; not empty
    std::vector<std::string> environment;  ///< NAME=VALUE that it gets
    std::function<void(const std::string& line)> log;   ///< what it prints, a line at a time; none: not shown
    std::function<void(const std::string& line)> note;  ///< for the user, when it takes long
    int life_line = -1;             ///< looked after meanwhile ...
    std::function<void()> ready;    ///< ... by this; an exception from it kills the entrypoint
};

/// Runs the entrypoint with a shell of the image as its command, as `docker run IMAGE sh` would, and returns what it
/// changed of the environment by the time it executed that. Its standard input is empty. Throws Error with one line for
/// an entrypoint that ends before it runs its command.
std::vector<plan::EnvironmentChange> run_entrypoint(const EntrypointRun& run);

/// `changes` with those of the entrypoint over them; but of the variables `kept` the task's own value counts, where
/// `environment` has one.
std::vector<plan::EnvironmentChange> with_entrypoint(std::vector<plan::EnvironmentChange> changes,
                                                     const std::vector<plan::EnvironmentChange>& entrypoint,
                                                     const std::vector<std::string>& kept,
                                                     const std::vector<std::string>& environment);

}  // namespace berth
