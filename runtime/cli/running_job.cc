#include "runtime/cli/running_job.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::cli {

namespace {

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= 10 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_job(std::string_view text) {
    size_t line = text.find('_');
    return is_number(text.substr(0, line)) && (line == text.npos || is_number(text.substr(line + 1)));
}

/// Those that the target may mean: by its name in an array, else by its number, else every task of an array.
std::vector<QueuedJob> meant(const std::vector<QueuedJob>& queue, const JobTarget& target) {
    std::vector<QueuedJob> out;
    for (auto which : {&QueuedJob::name, &QueuedJob::id}) {
        std::copy_if(queue.begin(), queue.end(), std::back_inserter(out),
                     [&](const QueuedJob& job) { return job.*which == target.job; });
        if (!out.empty()) return out;
    }
    return queue;
}

[[noreturn]] void refuse(const JobTarget& target, const std::string& why) {
    throw Error(cat("entering job ", target.job, ": ", why));
}

}  // namespace

JobTarget parse_job_target(std::string_view text) {
    size_t dot = std::min(text.find('.'), text.size());
    auto fail = [&](size_t at) {
        throw Error(with_caret("a job is written as JOB or JOB.STEP, such as 1234, 1234_7, 1234.0 or 1234.batch", text,
                               at));
    };
    if (!is_job(text.substr(0, dot))) fail(0);
    if (dot == text.size()) return {std::string(text), ""};
    if (!plan::is_step_name(cat("1", text.substr(dot))) || text.size() - dot > 12) fail(dot + 1);
    return {std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

std::vector<std::string> queue_words(const JobTarget& target) {
    return {"--noheader", "--states=all", "--jobs=" + target.job, "--format=%A|%i|%T|%U|%N"};
}

std::vector<std::string> step_words(const std::string& id, const std::string& step) {
    return {"--noheader", "--steps=" + id + "." + step, "--format=%N"};
}

std::vector<QueuedJob> parse_queue(std::string_view text) {
    std::vector<QueuedJob> out;
    for (const std::string& line : split(text, '\n')) {
        std::vector<std::string> fields = split(line, '|');
        if (fields.size() != 5) continue;
        for (std::string& field : fields) field = std::string(trimmed(field));
        if (is_number(fields[0]) && is_number(fields[3]))
            out.push_back({fields[0], fields[1], fields[2], fields[3], fields[4]});
    }
    return out;
}

QueuedJob running_job(const std::vector<QueuedJob>& queue, const JobTarget& target, uid_t uid) {
    std::vector<QueuedJob> jobs = meant(queue, target);
    if (jobs.empty()) refuse(target, "Slurm knows none of that number, or not any more; squeue --me lists yours");
    if (std::any_of(jobs.begin(), jobs.end(), [&](const QueuedJob& job) { return job.uid != std::to_string(uid); }))
        refuse(target, "it is another user's; only the owner of a job can enter its containers");
    std::vector<QueuedJob> running;
    std::copy_if(jobs.begin(), jobs.end(), std::back_inserter(running),
                 [](const QueuedJob& job) { return job.state == "RUNNING"; });
    if (running.size() == 1) return running.front();
    if (running.size() > 1)
        refuse(target,
               cat(running.size(), " tasks of this array run; write one, as ", printable(running.front().name)));
    const std::string& state = jobs.front().state;
    bool waits = state == "PENDING" || state == "CONFIGURING" || state == "SUSPENDED" || state == "STOPPED" ||
                 state.starts_with("REQUEUE");
    refuse(target, waits ? cat("it does not run yet, or not at the moment (", printable(state), "); wait until it does")
                         : cat("it has ended (", printable(state), "); squeue --me lists those that run"));
}

std::string node_of_job(const std::vector<std::string>& nodes, const std::string& wanted, const JobTarget& target) {
    if (nodes.empty()) refuse(target, "Slurm tells no node of it; squeue shows its state");
    if (wanted.empty()) return nodes.front();
    if (std::find(nodes.begin(), nodes.end(), wanted) == nodes.end())
        refuse(target, cat("it has no node ", printable(wanted), "; squeue --jobs=", target.job, " shows its nodes"));
    return wanted;
}

std::vector<std::string> srun_words(const StepInJob& step) {
    // Without a line of srun's own about what it does. By --mem=0 it may use all of the job's memory.
    std::vector<std::string> out = {"--quiet",    "--jobid=" + step.job,     "--overlap", "--nodes=1",
                                    "--ntasks=1", "--nodelist=" + step.node, "--mem=0",   "--mpi=none",
                                    "--export=ALL"};
    if (step.may_be_bound) out.emplace_back("--cpu-bind=none");
    out.emplace_back(step.terminal ? "--pty" : "--unbuffered");
    out.insert(out.end(), step.command.begin(), step.command.end());
    return out;
}

bool binds_tasks(std::string_view settings) {
    for (const std::string& line : split(settings, '\n'))
        if (line.starts_with("TaskPlugin ")) return line.find("task/affinity") != line.npos;
    return false;
}

bool steers_srun(std::string_view variable) {
    if (variable == "SLURM_CONF" || variable == "SLURM_JWT") return false;
    constexpr std::string_view prefixes[] = {"SLURM_", "SLURMD_", "SRUN_",           "SQUEUE_",
                                             "SPANK_", "_SLURM_", "BERTH_CONTAINER_", "PYXIS_CONTAINER_"};
    return std::any_of(std::begin(prefixes), std::end(prefixes),
                       [&](std::string_view prefix) { return variable.starts_with(prefix); });
}

}  // namespace berth::cli
