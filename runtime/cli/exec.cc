// `berth exec`: a command in a named container, which is started when it does not run, or in the container of a job's
// step.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/exec_job.hh"
#include "runtime/cli/run_named.hh"

namespace berth::cli {

namespace {

/// Those who write a command where a container's name is expected are told how to write it.
void check_name(const RunOptions& options) {
    const std::string& name = options.request.name->name;
    if (options.job == 0 || containers_of_caller(options.job).find(name)) return;
    throw Error(cat("container ", name, ": the steps of job ", options.job,
                    " share none of that name here; for a command in the job's container write berth exec --job ",
                    options.job, " -- ", name));
}

}  // namespace

int exec(int argc, char** argv) {
    RunOptions options;
    JobExec where;
    int code = 0;
    if (!parse_exec_options(argc, argv, options, where, code)) return code;
    if (where.wanted) return exec_in_job(options, where);
    check_name(options);
    return run_named(options);
}

}  // namespace berth::cli
