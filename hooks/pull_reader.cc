#include "hooks/pull_reader.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/host/run_program.hh"

namespace berth::hooks {

namespace {
constexpr auto timeout = std::chrono::seconds(10);
}

CdiEdits read_by_pull(std::vector<std::string> arguments, const std::string& input, const std::string& what) {
    arguments.insert(arguments.begin(), "cdi");
    ProgramAnswer answer = run_program(pull_program(), arguments, input, timeout);
    if (answer.code != 0 && answer.complaint.starts_with("berth: ")) throw Error(answer.complaint.substr(7));
    if (answer.code != 0) throw Error(cat("reading ", what, ": berth-pull failed: ", why_it_failed(answer, timeout)));
    return parse_cdi_edits(answer.output, what);
}

}  // namespace berth::hooks
