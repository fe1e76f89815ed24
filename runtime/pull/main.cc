// berth-pull: brings one image into a store, and keeps logins: all that speaks to registries. A program of its own, so
// that a start that needs no pull loads no libcurl and no OpenSSL.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/config/networks.hh"
#include "runtime/config/site_file.hh"
#include "runtime/config/words.hh"
#include "runtime/host/addresses.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/job_answers.hh"
#include "runtime/host/policy_facts.hh"
#include "runtime/oci/layer/gzip.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/commands/asked_variables.hh"
#include "runtime/pull/commands/cdi.hh"
#include "runtime/pull/commands/deadline.hh"
#include "runtime/pull/commands/login.hh"
#include "runtime/pull/commands/output.hh"
#include "runtime/pull/commands/sif_signatures.hh"
#include "runtime/pull/export/import.hh"
#include "runtime/pull/export/save.hh"
#include "runtime/pull/export/sif.hh"
#include "runtime/pull/image/admission.hh"
#include "runtime/pull/image/chain.hh"
#include "runtime/pull/image/daemons.hh"
#include "runtime/pull/image/settings.hh"
#include "runtime/pull/layers/origins.hh"
#include "runtime/pull/lazy/early.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/tracker/server.hh"
#include "runtime/pull/publish/publish.hh"
#include "runtime/pull/publish/sign.hh"
#include "runtime/pull/report/report.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/pull/transfer/pull_event.hh"
#include "runtime/pull/verify/verify.hh"
#include "runtime/store/partial.hh"

namespace {

using namespace berth;

struct Arguments {
    std::string store;
    std::string policy = "newer";
    std::vector<std::string> plain_http;
    std::string site;
    std::string user;
    std::string login;
    std::string logout;
    std::string arch;
    std::string job_answers;
    std::string job;
    std::vector<std::string> refused_logins;
    bool ask_variables = false;
    bool password_from_input = false;
    bool resolve = false;
    bool agree = false;
    bool share = false;
    bool prove_later = false;
    bool early = false;
    pull::OutputOptions output;
    std::vector<std::string> settings;
    unsigned threads = 0;
    uint64_t keep_bytes = 0;
    unsigned keep_days = 0;
    std::string reference;
    /// What all that this process asks registries for has in common.
    std::shared_ptr<oci::LoginHistory> history = std::make_shared<oci::LoginHistory>();
    std::shared_ptr<pull::AskedVariables> variables = std::make_shared<pull::AskedVariables>();
};

plan::Site site_of(const Arguments& arguments, const std::vector<std::string>& environment) {
    std::vector<std::string> settings = environment;
    settings.insert(settings.end(), arguments.settings.begin(), arguments.settings.end());
    return pull::site_of(arguments.site, settings);
}

pull::Logins logins_of(const Arguments& arguments, const std::vector<std::string>& environment,
                       const plan::Site& site) {
    pull::Logins out(environment, site);
    out.history = arguments.history;
    if (arguments.ask_variables)
        out.places.variable = [variables = arguments.variables](const std::string& name) {
            return variables->value(name);
        };
    return out;
}

pull::Options options_of(const Arguments& arguments, const plan::Reference& reference, const plan::Site& site) {
    std::vector<std::string> environment = environment_of_this_process();
    pull::Logins logins = logins_of(arguments, environment, site);
    pull::Options out;
    out.policy = pull::policy_of(arguments.policy);
    out.fresh_for = site.store.fresh_for;
    out.stall_time = std::chrono::seconds(site.limits.stall_time);
    out.fetch_rate = site.limits.fetch_rate;
    out.signatures = pull::signature_rules(site);
    out.artifacts = pull::artifact_rules(site, logins);
    pull::set_daemon(out, reference, environment);
    out.keep = {arguments.keep_bytes, int64_t{24 * 3600} * arguments.keep_days};
    out.limits = pull::pull_limits(site);
    out.limits.threads = arguments.threads;
    out.registry = pull::options_for(reference, arguments.user, site, logins);
    out.registry.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    return out;
}

/// Where the nodes of the step agree and share: the first line of the standard input. The secret in it is for no other
/// process of the user, among which those of an image may be.
pull::MeetingPlace meeting_place() {
    ::prctl(PR_SET_DUMPABLE, 0);
    std::string place;
    std::getline(std::cin, place);
    return pull::parse_agreement_address(place);
}

/// What the tag means for all nodes of the step.
Digest agreed(const store::Store& store, const plan::Reference& reference, const pull::Options& options,
                   pull::Meter& meter) {
    pull::MeetingPlace place = meeting_place();
    Digest mine = pull::digest_now(store, reference, options, meter);
    std::string what = printable(reference.text(), 1024);
    pull::Agreed result = pull::agree(place, mine, what);
    if (result.digest != mine)
        meter.warn(cat(what, " is ", mine, " here; this step runs ", result.digest, ", which node ", result.node,
                       " found first"));
    return result.digest;
}

pull::ShareLimits share_limits(const plan::Site& site) {
    plan::PortRange ports = plan::parse_port_range(site.share.ports);
    return {.address = plan::address_in(site.share.networks, addresses_of_this_machine()).value_or(""),
            .first_port = ports.first,
            .last_port = ports.last,
            .rate = site.share.rate};
}

Digest pulled(const Arguments& arguments, pull::Output& output, pull::Afterwards& afterwards) {
    plan::Reference reference =
        plan::with_absolute_path(plan::parse_reference(arguments.reference), std::filesystem::current_path(),
                                 caller_of_this_process().home);
    plan::Site site = site_of(arguments, environment_of_this_process());
    check_image_here(site, reference);
    pull::Deadline deadline(site, output);
    store::Store store = store::Store::open(arguments.store);
    pull::Options options = options_of(arguments, reference, site);
    if (arguments.share) options.share_limits = share_limits(site);
    if (arguments.share) options.share = meeting_place();
    // The pull that follows warns.
    if (arguments.agree) arguments.history->silence();
    options.prove_later = arguments.prove_later;
    options.early = arguments.early;
    return arguments.agree ? agreed(store, reference, options, output.meter())
                           : pull::pull(store, reference, options, output.meter(), afterwards);
}

/// The kernel keeps a priority for each thread. Those that are made later have their maker's.
void leave_cpus_to_tasks() {
    std::error_code none;
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none))
        ::setpriority(PRIO_PROCESS, static_cast<id_t>(std::stoul(thread.path().filename())), 10);
}

/// A layer that is not what its publisher said is an event of the site's; whoever started the pull listens no more.
void prove_layers(const Arguments& arguments, const pull::Unproved& unproved, pull::Output& output) try {
    if (unproved.layers.empty()) return;
    ::setpriority(PRIO_PROCESS, 0, 19);
    for (const std::string& problem : pull::prove(store::Store::open(arguments.store), unproved)) {
        pull::PullEvent event(site_of(arguments, environment_of_this_process()), plan::Event::Kind::pull,
                              arguments.reference, output.meter());
        event.of_job(arguments.job);
        event.failed(Error(problem));
    }
} catch (const std::exception&) {
    // They stay noted as unproved.
}

/// The layers of an image that has started come, and it becomes one of the store.
pull::Completed complete(const Arguments& arguments, const pull::Afterwards& afterwards,
                                       const Digest& digest, pull::Output& output) {
    plan::Reference reference = plan::parse_reference(arguments.reference);
    plan::Site site = site_of(arguments, environment_of_this_process());
    store::Store store = store::Store::open(arguments.store);
    pull::PullEvent event(site, plan::Event::Kind::pull, arguments.reference, output.meter());
    event.of_job(arguments.job);
    try {
        reference.digest = digest;
        pull::Options options = options_of(arguments, reference, site);
        options.policy = plan::PullPolicy::missing;
        options.prove_later = true;
        options.known = afterwards.documents;
        options.share = afterwards.place;
        if (options.share) options.share_limits = share_limits(site);
        pull::Completed out = pull::complete_early(store, reference, *afterwards.early, options, output.meter());
        options.share.reset();
        pull::Afterwards rest;
        pull::pull(store, reference, options, output.meter(), rest);
        pull::note_origins(store, *afterwards.early, out.origins);
        store::remove_partial(store, *afterwards.early);
        event.pulled(digest.text());
        if (!out.unproved) out.unproved = std::move(rest.unproved);
        return out;
    } catch (const Error& problem) {
        event.failed(problem);
        throw;
    }
}

/// The exit code. The proofs come last, and nothing waits for them.
int complete_here(const Arguments& arguments, pull::Afterwards& afterwards, const Digest& digest,
                  pull::Output& output) try {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pull::Completed completed = complete(arguments, afterwards, digest, output);
    // The image is there. Other nodes may need this one for long.
    afterwards.no_removals.unlock_for_all();
    pull::prove_together(store::Store::open(arguments.store), completed,
                         [&](const pull::Unproved& unproved) { prove_layers(arguments, unproved, output); });
    return 0;
} catch (const std::exception&) {
    return exit_failure;
}

/// The end of a start that did not wait for its layers, in a process of its own, which is made again when it is killed:
/// what has come by then need not come again. Throws Error when it has failed.
void complete_for_sure(const Arguments& arguments, pull::Afterwards& afterwards, const Digest& digest,
                       pull::Output& output) {
    constexpr unsigned tries = 4;
    for (unsigned i = 0; i < tries; ++i) {
        pid_t worker = ::fork();
        if (worker < 0) throw SysError("starting the process that brings the image's layers");
        if (worker == 0) ::_exit(complete_here(arguments, afterwards, digest, output));
        int status = 0;
        while (::waitpid(worker, &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
        if (WIFEXITED(status)) throw Error("bringing the image's layers: the process that does has failed");
    }
    throw Error("bringing the image's layers: the process that does was killed again and again");
}

/// What the other nodes of the step lack they get from here, and what has not been proved is; with what this node's
/// tasks leave of its CPUs.
void go_on(const Arguments& arguments, pull::Afterwards& afterwards, const Digest& digest, pull::Output& output) {
    bool is_shared = afterwards.member && afterwards.member->is_shared();
    if (!is_shared && !afterwards.unproved && !afterwards.early) return;
    output.goes_on();
    leave_cpus_to_tasks();
    if (afterwards.early) return complete_for_sure(arguments, afterwards, digest, output);
    std::jthread prover;  // joined at the end
    if (afterwards.unproved)
        prover = std::jthread([&] { prove_layers(arguments, *afterwards.unproved, output); });
    if (is_shared) afterwards.member->serve_to_the_end();
}

/// The digest that the registry's tag has now. One try: the nodes can ask as well.
std::string resolved(const Arguments& arguments, const plan::Site& site) {
    plan::Reference reference = plan::parse_reference(arguments.reference);
    pull::Options options = options_of(arguments, reference, site);
    options.registry.head_retries = 0;
    auto source = oci::make_registry_source(reference, options.registry);
    if (!arguments.arch.empty()) {
        oci::Machine machine = oci::machine_named(arguments.arch);
        std::string what = printable(reference.text(), 1024);
        return pull::find_chain(*source, std::nullopt, machine, what).document.digest.text();
    }
    auto answer = source->resolve();
    Digest digest = answer ? answer->digest : source->manifest().digest;
    if (!arguments.job_answers.empty()) digest = JobAnswers(arguments.job_answers).keep(reference.text(), digest);
    return digest.text();
}

/// Prints that, and for srun what the nodes need not try: which logins the registry has refused. "-" stands for no
/// digest. "unknown warn LINE" or "unknown refuse LINE", by the site's key, is for sbatch, whose job would wait to
/// fail; not for a registry that lets nobody in: the nodes may have another login.
int resolve_tag(const Arguments& arguments) {
    plan::Site site = site_of(arguments, environment_of_this_process());
    bool by_srun = arguments.arch.empty();
    auto print = [&](std::string line) {
        for (const std::string& word : arguments.history->words()) line += by_srun ? " " + word : "";
        std::cout << line << std::endl;
    };
    try {
        print(resolved(arguments, site));
        return 0;
    } catch (const oci::NoManifest& problem) {
        std::cout << "unknown " << plan::word_of(site.slurm.unknown_image) << ' ' << problem.what() << std::endl;
        throw;
    } catch (const Error&) {
        if (by_srun && !arguments.history->refused().empty()) print("-");
        throw;
    }
}

std::string logged_in(const Arguments& arguments, const std::vector<std::string>& environment) {
    plan::Site site = pull::site_of(arguments.site, environment);
    oci::RegistryOptions options = pull::registry_options(site, arguments.login);
    options.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    return pull::login(arguments.login, arguments.user, arguments.password_from_input, options,
                       pull::credential_places(environment, site));
}

int keep_login(const Arguments& arguments) {
    std::vector<std::string> environment = environment_of_this_process();
    bool in = !arguments.login.empty();
    plan::Site site = pull::site_of(arguments.site, environment);
    oci::CredentialPlaces places = pull::credential_places(environment, site);
    std::string line = in ? logged_in(arguments, environment) : pull::logout(arguments.logout, places);
    std::cerr << line << '\n';
    return 0;
}

/// Whoever reads the report passes its lines on.
void start_log(const pull::OutputOptions& output) {
    if (!debug::asks_for_log(::getenv("BERTH_LOG"))) return;
    output.report ? debug::start_in_report("berth-pull") : debug::start("berth-pull");
}

int pull_image(const Arguments& arguments) {
    pull::Output output(arguments.output, arguments.reference);
    start_log(arguments.output);
    // None of a pull that is part of a start.
    std::optional<pull::PullEvent> event;
    try {
        if (!arguments.output.report)
            event.emplace(pull::site_of(arguments.site, environment_of_this_process()), plan::Event::Kind::pull,
                          arguments.reference, output.meter());
        pull::Afterwards afterwards;
        Digest digest = pulled(arguments, output, afterwards);
        if (afterwards.early) output.early(*afterwards.early, afterwards.admitted);
        output.refused_logins(arguments.history->words());
        output.done(digest.text());
        if (event) event->pulled(digest.text());
        go_on(arguments, afterwards, digest, output);
        return 0;
    } catch (const Error& problem) {
        output.failed(problem, pull::cause_of_pull(problem));
        if (event) event->failed(problem);
        return problem.exit_code();
    } catch (const std::exception& problem) {
        output.failed(Error(cat("berth-pull ", printable(arguments.reference), ": ", printable(problem.what()))));
        return exit_failure;
    }
}

/// Interruption needs no handler but for the screen: what is not published has no name and goes with the process.
void prepare_process(const pull::OutputOptions& output) {
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    // Of a file that is longer than the caller's limit the write says so, in words.
    ::signal(SIGXFSZ, SIG_IGN);
    if (output.report) ::prctl(PR_SET_PDEATHSIG, output.bars ? SIGTERM : SIGKILL);
}

/// Errors that nothing else has told, as lines of `word`.
int reporting_errors(const char* word, const std::function<int()>& work) {
    try {
        return work();
    } catch (const Error& problem) {
        std::cerr << "berth: " << problem.what() << '\n';
        return problem.exit_code();
    } catch (const std::exception& problem) {
        std::cerr << "berth: " << word << ": " << printable(problem.what()) << '\n';
        return exit_failure;
    }
}

/// The commands of `berth` that need what only this program is linked with: they come as the first word.
int run_command(int argc, char** argv, int (*command)(int, char**), const pull::OutputOptions& output = {}) {
    prepare_process(output);
    return reporting_errors(argv[1], [&] {
        start_log(output);
        return command(argc - 1, argv + 1);
    });
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "admit") == 0) return run_command(argc, argv, pull::admit_command);
    if (argc > 1 && std::strcmp(argv[1], "publish") == 0) return run_command(argc, argv, pull::publish_command);
    if (argc > 1 && std::strcmp(argv[1], "sign") == 0) return run_command(argc, argv, pull::sign_command);
    if (argc > 1 && std::strcmp(argv[1], "report") == 0) return run_command(argc, argv, pull::report_command);
    if (argc > 1 && std::strcmp(argv[1], "import") == 0) return run_command(argc, argv, pull::import_command);
    if (argc > 1 && std::strcmp(argv[1], "sif") == 0) return run_command(argc, argv, pull::sif_command);
    if (argc > 1 && std::strcmp(argv[1], "sif-push") == 0) return run_command(argc, argv, pull::sif_push_command);
    if (argc > 1 && std::strcmp(argv[1], "save") == 0) return run_command(argc, argv, pull::save_command);
    if (argc > 1 && std::strcmp(argv[1], "cdi") == 0) return run_command(argc, argv, pull::cdi_command);
    if (argc > 1 && std::strcmp(argv[1], "agree") == 0) return run_command(argc, argv, pull::share::agree_command);
    if (argc > 1 && std::strcmp(argv[1], "verify") == 0) return run_command(argc, argv, pull::verify_command);
    if (argc > 1 && std::strcmp(argv[1], "sif-verify") == 0) return run_command(argc, argv, pull::sif_verify_command);
    if (argc > 1 && std::strcmp(argv[1], "sif-key-list") == 0)
        return run_command(argc, argv, pull::sif_key_list_command);
    if (argc > 1 && std::strcmp(argv[1], "sif-key-import") == 0)
        return run_command(argc, argv, pull::sif_key_import_command);
    if (argc > 1 && std::strcmp(argv[1], "sif-key-remove") == 0)
        return run_command(argc, argv, pull::sif_key_remove_command);
    Arguments arguments;
    CommandLine line("Brings an image into a store of berth.", "berth-pull");
    line.version(cat("berth-pull " BERTH_VERSION ", gzip by ", oci::name_of(oci::best_gzip_engine())));
    line.option("--store", arguments.store, "directory of the store");
    line.option("--policy", arguments.policy, "newer (default), missing, always or never");
    line.option("--plain-http", arguments.plain_http, "registry without TLS (loopback always)");
    line.option("--site", arguments.site, "site file, for the settings of registries");
    line.option("--setting", arguments.settings,
                "BERTH_SECTION_KEY=VALUE, overrides the variable of that name");
    line.option("--threads", arguments.threads, "that compress, at most; 0: one for each CPU").at_most(1024);
    line.option("--keep-bytes", arguments.keep_bytes, "what the store may keep after the pull; 0: no limit");
    line.option("--keep-days", arguments.keep_days, "days without use after which images are removed then; 0: never");
    auto report =
        line.flag("--report", arguments.output.report, "report to a program, by lines on the standard output");
    line.flag("--bars", arguments.output.bars, "show progress on standard error all the same, when it is a terminal")
        .needs(report);
    auto json =
        line.flag("--json", arguments.output.json, "tell what happens as JSON on the standard output").excludes(report);
    line.flag("-q,--quiet", arguments.output.quiet, "print nothing but the digest").excludes(json);
    auto resolve = line.flag("--resolve", arguments.resolve, "only print the digest that a registry's tag has now");
    line.option("--arch", arguments.arch,
                "with --resolve: of the manifest for this architecture, where the tag means several")
        .needs(resolve);
    line.option("--job-answers", arguments.job_answers, "with --resolve: file that keeps the answer for the job")
        .needs(resolve);
    auto agree =
        line.flag("--agree", arguments.agree,
                  "only agree with the step's other nodes what the tag means; where is read from standard input")
            .needs(report);
    line.flag("--share", arguments.share,
              "share the image with the step's other nodes; where they meet is read from standard input")
        .needs(report)
        .excludes(agree);
    line.flag("--prove-later", arguments.prove_later,
              "use published layers that a key of the site's has signed, and prove them when the image is here")
        .needs(report);
    line.flag("--early", arguments.early,
              "let the image start before its layers are here, where a key of the site's has signed them")
        .needs(report);
    line.option("--job", arguments.job, "JOB.STEP, for the events of what goes on when the image can start")
        .needs(report);
    line.option("--refused-login", arguments.refused_logins,
                "HOST=FILE, as in a URL: a login that is not sent, since the registry has refused it");
    line.flag("--ask-variables", arguments.ask_variables,
              "ask who reads the report for variables that are passwords; the answers are read from standard input")
        .needs(report);
    line.option("--user", arguments.user, "whose login to use, or to make");
    auto login = line.option("--login", arguments.login, "registry to log in to, instead of a pull");
    line.flag("--password-stdin", arguments.password_from_input, "with --login: read the password from standard input")
        .needs(login);
    auto logout =
        line.option("--logout", arguments.logout, "registry whose login to remove, instead of a pull").excludes(login);
    auto image = line.argument("reference", arguments.reference, "the image").excludes(login).excludes(logout);
    if (auto code = line.parse(argc, argv)) return *code;
    for (const std::string& word : arguments.refused_logins)
        if (auto refused = oci::parse_refused_login(word)) arguments.history->add(std::move(*refused));
    bool of_login = login.given() || logout.given();
    if (!of_login && (!image.given() || (arguments.store.empty() && !resolve.given())))
        return line.missing("--store and the image");
    prepare_process(arguments.output);
    auto logged = [&](const char* word, int (*work)(const Arguments&)) {
        return reporting_errors(word, [&] {
            start_log(arguments.output);
            return work(arguments);
        });
    };
    if (of_login) return logged("login", keep_login);
    if (arguments.resolve) return logged("resolve", resolve_tag);
    return pull_image(arguments);
}
