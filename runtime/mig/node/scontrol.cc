#include "runtime/mig/node/scontrol.hh"

#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"

namespace berth::mig {

namespace {

std::string path_of(const std::string& program, const std::string& path) try {
    return find_command(program, path, "on this node");
} catch (const Error& error) {
    throw Error(cat(error.what(), "; name Slurm's scontrol by berth-mig apply --scontrol"));
}

}  // namespace

std::string scontrol_answer(const std::string& program, const std::string& path, uint32_t job,
                            std::chrono::seconds patience) {
    ProgramAnswer answer =
        run_program(path_of(program, path), {"--details", "show", "job", std::to_string(job)}, "", patience);
    if (answer.code == 0) return std::move(answer.output);
    std::string doing = cat("asking Slurm about job ", job, ": ");
    if (answer.code < 0)
        throw Error(cat(doing, "no answer within ", patience.count(), " s; see whether ", printable(program),
                        " gets one on the node"));
    throw Error(cat(doing, printable(program), " ends with ", answer.code,
                    answer.complaint.empty() ? "" : ": " + answer.complaint, "; see what it prints on the node"));
}

}  // namespace berth::mig
