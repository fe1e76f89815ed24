// What a user writes of a job that runs, and what squeue answers about it.
#include <algorithm>

#include "runtime/base/text.hh"
#include "runtime/cli/running_job.hh"
#include "runtime/request/names.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

bool is_word(const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '_';
    });
}

/// The first line is the target, the rest the answer.
void run(std::string_view input) {
    std::string_view text = hostile::take_line(input);
    std::vector<cli::QueuedJob> queue = cli::parse_queue(input);
    for (const cli::QueuedJob& job : queue)
        must(is_word(job.id) && !job.id.empty() && job.nodes.find('\n') == job.nodes.npos, "a job that is none");
    hostile::refusing([&] {
        cli::JobTarget target = cli::parse_job_target(text);
        must(target.text() == text, "what was read is written otherwise");
        must(is_word(target.job) && is_word(target.step), "a word that may be more than one, or an option");
        must(target.step.empty() || plan::is_step_name("1." + target.step), "a step that has no container");
        cli::QueuedJob job = cli::running_job(queue, target, 2001);
        must(job.state == "RUNNING" && job.uid == "2001", "a job that cannot be entered");
    });
}

const hostile::Registration registration("job", run);

}  // namespace
