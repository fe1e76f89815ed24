// berth-pull: brings one image into a store, and keeps logins: all that speaks to registries. A program of its own, so that a start that needs no
// pull loads no libcurl and no OpenSSL.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/site_file.hh"
#include "runtime/pull/import.hh"
#include "runtime/pull/login.hh"
#include "runtime/pull/pull.hh"
#include "runtime/pull/save.hh"
#include "runtime/pull/settings.hh"
#include "runtime/pull/verify.hh"

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
    bool password_from_input = false;
    bool report = false;
    uint64_t keep_bytes = 0;
    unsigned keep_days = 0;
    std::string reference;
};

/// What the program says: lines for the runtime that started it (`progress TEXT`, `image DIGEST`, `error CODE TEXT`), or for a person.
class Output {
  public:
    explicit Output(bool report) : report_(report) {}

    void progress(const std::string& text) const { report_ ? put(STDOUT_FILENO, "progress ", text) : put(STDERR_FILENO, "", text); }
    void image(const std::string& digest) const { put(STDOUT_FILENO, report_ ? "image " : "", digest); }
    void error(const Error& problem) const {
        if (!report_) return put(STDERR_FILENO, "berth-pull: ", problem.what());
        // A caret means nothing where the line is read; the place of the mistake was shown at submission.
        std::vector<std::string> lines = split(problem.what(), '\n');
        std::string text = lines.size() > 1 ? cat(lines[0], ": ", trimmed(lines[1])) : lines[0];
        put(STDOUT_FILENO, cat("error ", problem.exit_code(), " "), text);
    }

  private:
    static void put(int fd, const std::string& head, const std::string& text) {
        try {
            sys::write_all(fd, cat(head, text, "\n"), "the report");
        } catch (const Error&) {
            // Nobody listens any more.
        }
    }

    bool report_;
};

/// The socket of `program`'s daemon, by the variables that its own client heeds.
std::string socket_of(const char* program) {
    auto value = [](const char* name) { return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name)); };
    if (program == std::string("podman")) {
        std::string folder = value("XDG_RUNTIME_DIR");
        return cat(folder.empty() ? cat("/run/user/", ::geteuid()) : folder, "/podman/podman.sock");
    }
    std::string host = value("DOCKER_HOST");
    if (host.empty()) return "/var/run/docker.sock";
    if (!host.starts_with("unix://")) throw Error(cat("DOCKER_HOST=", printable(host), ": only a unix socket is supported, as unix:///PATH"));
    return host.substr(7);
}

pull::Options options_of(const Arguments& arguments, const plan::Reference& reference) {
    std::vector<std::string> environment = pull::environment_of_this_process();
    pull::Options out;
    out.policy = pull::parse_policy(arguments.policy);
    if (reference.kind == plan::Reference::Kind::dockerd) out.docker_socket = socket_of("docker");
    out.podman_socket = socket_of("podman");
    out.keep = {arguments.keep_bytes, int64_t{24 * 3600} * arguments.keep_days};
    out.registry = pull::options_for(reference, arguments.user, pull::site_of(arguments.site, environment), environment);
    out.registry.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    return out;
}

std::string pulled(const Arguments& arguments, const Output& output) {
    plan::Reference reference = plan::with_absolute_path(plan::parse_reference(arguments.reference), std::filesystem::current_path());
    store::Store store = store::Store::open(arguments.store);
    return pull::pull(store, reference, options_of(arguments, reference), [&](const std::string& text) { output.progress(text); });
}

std::string logged_in(const Arguments& arguments, const std::vector<std::string>& environment) {
    image::RegistryOptions options = pull::registry_options(pull::site_of(arguments.site, environment), arguments.login);
    options.plain_http.insert(arguments.plain_http.begin(), arguments.plain_http.end());
    return pull::login(arguments.login, arguments.user, arguments.password_from_input, options, pull::credential_places(environment));
}

/// The work of the mode that the arguments choose.
void work(const Arguments& arguments, const Output& output) {
    std::vector<std::string> environment = pull::environment_of_this_process();
    if (!arguments.login.empty())
        output.progress(logged_in(arguments, environment));
    else if (!arguments.logout.empty())
        output.progress(pull::logout(arguments.logout, pull::credential_places(environment)));
    else
        output.image(pulled(arguments, output));
}

int run(const Arguments& arguments, const Output& output) {
    try {
        work(arguments, output);
        return 0;
    } catch (const Error& problem) {
        output.error(problem);
        return problem.exit_code();
    } catch (const std::exception& problem) {
        output.error(Error(cat("berth-pull ", printable(arguments.reference), ": ", printable(problem.what()))));
        return exit_failure;
    }
}

/// Interruption needs no handler: what is not published has no name and goes with the process.
void prepare_process(bool report) {
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    if (report) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/// The commands of `berth` that need what only this program is linked with: they come as the first word.
int run_command(int argc, char** argv, int (*command)(int, char**)) {
    prepare_process(false);
    try {
        return command(argc - 1, argv + 1);
    } catch (const Error& problem) {
        std::cerr << "berth: " << problem.what() << '\n';
        return problem.exit_code();
    } catch (const std::exception& problem) {
        std::cerr << "berth: " << argv[1] << ": " << printable(problem.what()) << '\n';
        return exit_failure;
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "import") == 0) return run_command(argc, argv, pull::import_command);
    if (argc > 1 && std::strcmp(argv[1], "save") == 0) return run_command(argc, argv, pull::save_command);
    if (argc > 1 && std::strcmp(argv[1], "verify") == 0) return run_command(argc, argv, pull::verify_command);
    Arguments arguments;
    CLI::App app("Brings an image into a store of berth.", "berth-pull");
    app.add_option("--store", arguments.store, "directory of the store");
    app.add_option("--policy", arguments.policy, "newer (default), missing, always or never");
    app.add_option("--plain-http", arguments.plain_http, "registry that is spoken to without TLS (loopback always is)")->expected(1)->take_all();
    app.add_option("--site", arguments.site, "site file, of which the registries are used");
    app.add_option("--keep-bytes", arguments.keep_bytes, "what the store may keep after the pull; 0: no limit");
    app.add_option("--keep-days", arguments.keep_days, "days without use after which images are removed then; 0: never");
    app.add_flag("--report", arguments.report, "report to a program, by lines on the standard output");
    app.add_option("--user", arguments.user, "whose login to use, or to make");
    auto* login = app.add_option("--login", arguments.login, "registry to log in to, instead of a pull");
    app.add_flag("--password-stdin", arguments.password_from_input, "with --login: read the password from standard input")->needs(login);
    auto* logout = app.add_option("--logout", arguments.logout, "registry whose login to remove, instead of a pull")->excludes(login);
    auto* image = app.add_option("reference", arguments.reference, "the image")->excludes(login)->excludes(logout);
    try {
        app.parse(argc, argv);
        if (login->empty() && logout->empty() && (image->empty() || arguments.store.empty())) throw CLI::RequiredError("--store and the image");
    } catch (const CLI::ParseError& problem) {
        return app.exit(problem) == 0 ? 0 : exit_failure;
    }
    prepare_process(arguments.report);
    return run(arguments, Output(arguments.report));
}
