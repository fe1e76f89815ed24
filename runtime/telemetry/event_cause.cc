#include "runtime/telemetry/event_cause.hh"

#include <unistd.h>

#include <cerrno>

#include "runtime/base/text.hh"

namespace berth {

plan::Cause cause_of(const Error& error, plan::Cause otherwise) {
    if (const auto* pull = dynamic_cast<const PullError*>(&error)) return pull->cause();
    const auto* system = dynamic_cast<const SysError*>(&error);
    bool full = system != nullptr && (system->number() == ENOSPC || system->number() == EDQUOT);
    return full ? plan::Cause::space : otherwise;
}

std::string job_name(const std::vector<std::string>& environment) {
    std::string job, step;
    for (const std::string& entry : environment) {
        if (entry.starts_with("SLURM_JOB_ID=")) job = entry.substr(13);
        if (entry.starts_with("SLURM_STEP_ID=")) step = entry.substr(14);
    }
    return job.empty() || step.empty() ? job : cat(job, ".", step);
}

std::string host_name() {
    char name[256] = "";
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace berth
