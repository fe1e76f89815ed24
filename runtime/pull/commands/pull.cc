// `berth-pull` itself: brings one image into a store, and does afterwards what its step still needs.
#include "runtime/pull/transfer/pull.hh"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/networks.hh"
#include "runtime/host/addresses.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/pull/commands/arguments.hh"
#include "runtime/pull/commands/deadline.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/transfer/pull_event.hh"

namespace berth::pull {

namespace {

/// Where the nodes of the step agree and share: the first line of the standard input. The secret in it is for no other
/// process of the user, among which those of an image may be.
MeetingPlace meeting_place() {
    ::prctl(PR_SET_DUMPABLE, 0);
    std::string place;
    std::getline(std::cin, place);
    return parse_agreement_address(place);
}

ShareLimits share_limits(const plan::Site& site) {
    plan::PortRange ports = plan::parse_port_range(site.share.ports);
    return {.address = plan::address_in(site.share.networks, addresses_of_this_machine()).value_or(""),
            .first_port = ports.first,
            .last_port = ports.last,
            .rate = site.share.rate};
}

/// The kernel keeps a priority for each thread. Those that are made later have their maker's.
void leave_cpus_to_tasks() {
    std::error_code none;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none))
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(thread.path().filename())), 10);
}

class PullCommand {
  public:
    explicit PullCommand(const Arguments& arguments)
        : arguments_(arguments), output_(arguments.output, arguments.reference) {
        start_log(arguments.output);
    }
    int run();

  private:
    Digest bring();
    Digest agreed();
    void go_on();
    void complete_for_sure();
    int complete() noexcept;
    Completed layers_brought();
    void prove_layers(const Unproved& unproved);
    PullEvent event();

    const Arguments& arguments_;
    Output output_;
    plan::Site site_;
    plan::Reference reference_;
    std::optional<store::Store> store_;
    Options options_;
    Afterwards afterwards_;
};

PullEvent PullCommand::event() {
    PullEvent out(site_, plan::Event::Kind::pull, arguments_.reference, output_.meter());
    out.of_job(arguments_.job);
    return out;
}

int PullCommand::run() {
    // None of a pull that is part of a start.
    std::optional<PullEvent> told;
    try {
        site_ = site_of(arguments_);
        if (!arguments_.output.report) told.emplace(event());
        Digest digest = bring();
        if (afterwards_.early) output_.early(*afterwards_.early, afterwards_.admitted);
        output_.refused_logins(arguments_.history->words());
        output_.done(digest.text());
        if (told) told->pulled(digest.text());
        reference_.digest = digest;
        go_on();
        return 0;
    } catch (const Error& problem) {
        output_.failed(problem, cause_of_pull(problem));
        if (told) told->failed(problem);
        return problem.exit_code();
    } catch (const std::exception& problem) {
        output_.failed(Error(cat("berth-pull ", printable(arguments_.reference), ": ", printable(problem.what()))));
        return exit_failure;
    }
}

Digest PullCommand::bring() {
    reference_ = plan::with_absolute_path(plan::parse_reference(arguments_.reference), std::filesystem::current_path(),
                                          caller_of_this_process().home);
    check_image_here(site_, reference_);
    Deadline deadline(site_, output_);
    store_ = store::Store::open(arguments_.store);
    options_ = options_of(arguments_, reference_, site_);
    if (arguments_.agree) return agreed();
    options_.prove_later = arguments_.prove_later;
    options_.early = arguments_.early;
    if (arguments_.share) {
        options_.share_limits = share_limits(site_);
        options_.share = meeting_place();
    }
    return pull(*store_, reference_, options_, output_.meter(), afterwards_);
}

/// What the tag means for all nodes of the step.
Digest PullCommand::agreed() {
    // The pull that follows warns.
    arguments_.history->silence();
    MeetingPlace place = meeting_place();
    Digest mine = digest_now(*store_, reference_, options_, output_.meter());
    std::string what = printable(reference_.text(), 1024);
    Agreed result = agree(place, mine, what);
    if (result.digest != mine)
        output_.meter().warn(cat(what, " is ", mine, " here; this step runs ", result.digest, ", which node ",
                                 result.node, " found first"));
    return result.digest;
}

/// What the other nodes of the step lack they get from here, and what has not been proved is; with what this node's
/// tasks leave of its CPUs.
void PullCommand::go_on() {
    bool is_shared = afterwards_.member && afterwards_.member->is_shared();
    if (!is_shared && !afterwards_.unproved && !afterwards_.early) return;
    output_.goes_on();
    leave_cpus_to_tasks();
    if (afterwards_.early) return complete_for_sure();
    std::jthread prover;  // joined at the end
    if (afterwards_.unproved) prover = std::jthread([&] { prove_layers(*afterwards_.unproved); });
    if (is_shared) afterwards_.member->serve_to_the_end();
}

/// The end of a start that did not wait for its layers, in a process of its own, which is made again when it is killed:
/// what has come by then need not come again. Throws Error when it has failed.
void PullCommand::complete_for_sure() {
    constexpr unsigned tries = 4;
    for (unsigned i = 0; i < tries; ++i) {
        pid_t worker = ::fork();
        if (worker < 0) throw SysError("starting the process that brings the image's layers");
        if (worker == 0) ::_exit(complete());
        int status = 0;
        while (::waitpid(worker, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
        if (WIFEXITED(status)) throw Error("bringing the image's layers: the process that does has failed");
    }
    throw Error("bringing the image's layers: the process that does was killed again and again");
}

/// The exit code. The proofs come last, and nothing waits for them.
int PullCommand::complete() noexcept try {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Completed completed = layers_brought();
    // The image is there. Other nodes may need this one for long.
    afterwards_.no_removals.unlock_for_all();
    prove_together(*store_, completed, [&](const Unproved& unproved) { prove_layers(unproved); });
    return 0;
} catch (const std::exception&) {
    return exit_failure;
}

Completed PullCommand::layers_brought() {
    PullEvent told = event();
    try {
        Completed out = finish_early(*store_, reference_, options_, afterwards_, output_.meter());
        told.pulled(reference_.digest->text());
        return out;
    } catch (const Error& problem) {
        told.failed(problem);
        throw;
    }
}

/// A layer that is not what its publisher said is an event of the site's; whoever started the pull listens no more.
void PullCommand::prove_layers(const Unproved& unproved) try {
    if (unproved.layers.empty()) return;
    ::setpriority(PRIO_PROCESS, 0, 19);
    for (const std::string& problem : prove(*store_, unproved)) event().failed(Error(problem));
} catch (const std::exception&) {
    // They stay noted as unproved.
}

}  // namespace

int pull_image(const Arguments& arguments) {
    return PullCommand(arguments).run();
}

}  // namespace berth::pull
