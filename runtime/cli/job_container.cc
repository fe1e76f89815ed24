#include "runtime/cli/job_container.hh"

#include <optional>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/step/address.hh"
#include "runtime/step/scope.hh"

namespace berth::cli {

namespace {

/// Nothing when the step has gone meanwhile.
std::optional<JobContainer> ask_step(const std::string& folder, const std::string& node, const std::string& step,
                                     const std::vector<std::string>& environment) {
    Fd connection = StepAddress(folder, node, step).connect();
    auto joined = connection ? ask_to_join(connection.get(), environment) : std::nullopt;
    if (!joined) return std::nullopt;
    return JobContainer{step, std::move(*joined), std::move(connection)};
}

ino_t namespace_of(const JobContainer& container) {
    return sys::stat_of(container.joined.container.user_namespace.get(), "a namespace").st_ino;
}

std::string listed(const std::vector<JobContainer>& containers) {
    std::string out;
    for (const JobContainer& one : containers) out += cat(out.empty() ? "" : ", ", one.step);
    return out;
}

}  // namespace

JobContainer find_job_container(const JobTarget& target, const std::vector<std::string>& environment) {
    const std::string node = printable(value_in(environment, "SLURMD_NODENAME"));
    if (node.empty()) throw Error("berth enter is started in a step of Slurm, by berth exec --job");
    const std::string folder = run_directory(caller_of_this_process());
    std::vector<JobContainer> found;
    for (const std::string& step : steps_with_address(folder, node, target.job)) {
        if (!target.step.empty() && step != target.text()) continue;
        auto container = ask_step(folder, node, step, environment);
        // Steps may share a container.
        bool is_new = container.has_value();
        for (const JobContainer& before : found) is_new = is_new && namespace_of(before) != namespace_of(*container);
        if (is_new) found.push_back(std::move(*container));
    }
    if (found.empty())
        throw Error(cat(node, ": ", target.step.empty() ? "job " : "step ", target.text(),
                        " has no container here: it runs without one, has not started it yet, or runs on other nodes "
                        "(--node); squeue --steps --jobs=", target.job, " lists the job's steps"));
    if (found.size() > 1)
        throw Error(cat(node, ": job ", target.job, " has several containers here; write one of ", listed(found),
                        " in place of ", target.job));
    return std::move(found.front());
}

}  // namespace berth::cli
