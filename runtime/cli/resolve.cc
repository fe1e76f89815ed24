// `berth resolve`: run by the plugin in srun and sbatch while an allocation is awaited, to ask once for all nodes what
// a tag means; in a job, once for all its steps. `berth agree`: run by srun for a step of several nodes, for them to
// agree on that when srun does not know, and to share the image.
#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "runtime/base/descriptors.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/job_answers.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"

namespace berth::cli {

namespace {

bool may_ask(const plan::Reference& reference, const plan::Site& site) {
    bool by_tag = reference.kind == plan::Reference::Kind::registry && !reference.digest;
    return by_tag && site.slurm.resolve_tags == plan::TagResolver::submit &&
           (site.store.pull == plan::PullPolicy::newer || site.store.pull == plan::PullPolicy::always);
}

std::string file_of_answers() {
    return job_answers_file(environment_of_this_process(), caller_of_this_process().home);
}

}  // namespace

/// Prints the digest and a line end, or nothing: whoever is not answered leaves it to the nodes, whose errors are
/// shown.
int resolve(int argc, char** argv) {
    if (argc != 2) throw Error("berth resolve IMAGE is for srun and sbatch; see berth pull");
    sys::point_at_null({STDERR_FILENO});
    plan::Site site = load_site();
    plan::apply_environment(site, environment_of_this_process());
    plan::Reference reference = plan::parse_reference(argv[1]);
    if (!may_ask(reference, site)) return 0;
    std::string answers = site.store.pull == plan::PullPolicy::always ? std::string() : file_of_answers();
    if (!answers.empty())
        if (auto known = JobAnswers(answers).find(reference.text())) {
            std::printf("%s\n", known->text().c_str());
            return 0;
        }
    std::vector<std::string> arguments = site_arguments();
    if (!answers.empty()) arguments.insert(arguments.end(), {"--job-answers", answers});
    for (const auto& [host, registry] : site.registries)
        if (registry.plain_http) arguments.insert(arguments.end(), {"--plain-http", host});
    if (!reference.user.empty()) arguments.insert(arguments.end(), {"--user", reference.user});
    arguments.insert(arguments.end(), {"--resolve", reference.text()});
    exec_pull_program(std::move(arguments));
}

/// The program that speaks with the nodes is loaded once one of them has something to say: a step of which every node
/// has the image costs nothing but this wait.
int agree(int argc, char** argv) {
    std::vector<std::string> arguments(argv, argv + argc);
    // The step's secret, in the environment, is for no other process of the user.
    ::prctl(PR_SET_DUMPABLE, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() == 1) return 0;
    // srun has sockets that it lets programs inherit.
    sys::close_descriptors_except({});
    sys::point_at_null({STDERR_FILENO});
    pollfd listening{STDIN_FILENO, POLLIN, 0};
    while (::poll(&listening, 1, -1) < 0 && errno == EINTR) {
    }
    exec_pull_program(std::move(arguments));
}

}  // namespace berth::cli
