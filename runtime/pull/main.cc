// berth-pull: brings one image into a store, and keeps logins: all that speaks to registries. A program of its own, so
// that a start that needs no pull loads no libcurl and no OpenSSL.
#include <sys/prctl.h>
#include <sys/resource.h>

#include <csignal>
#include <functional>
#include <iostream>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/commands/arguments.hh"
#include "runtime/pull/commands/commands.hh"

namespace {

using namespace berth;

/// The commands of `berth` that need what only this program is linked with: they come as the first word.
struct Word {
    std::string_view word;
    pull::Command* command;
};
constexpr Word words[] = {
    {"admit", pull::admit_command},
    {"agree", pull::agree_command},
    {"cdi", pull::cdi_command},
    {"import", pull::import_command},
    {"publish", pull::publish_command},
    {"report", pull::report_command},
    {"save", pull::save_command},
    {"sif", pull::sif_command},
    {"sif-push", pull::sif_push_command},
    {"sif-verify", pull::sif_verify_command},
    {"sif-key-list", pull::sif_key_list_command},
    {"sif-key-import", pull::sif_key_import_command},
    {"sif-key-remove", pull::sif_key_remove_command},
    {"sign", pull::sign_command},
    {"verify", pull::verify_command},
};

/// Interruption needs no handler but for the screen: what is not published has no name and goes with the process.
void prepare_process(const pull::OutputOptions& output) {
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    // Of a file that is longer than the caller's limit the write says so, in words.
    ::signal(SIGXFSZ, SIG_IGN);
    if (output.report) ::prctl(PR_SET_PDEATHSIG, output.bars ? SIGTERM : SIGKILL);
}

/// Errors that nothing else has told, as lines of `word`.
int run(const char* word, const pull::OutputOptions& output, const std::function<int()>& work) {
    try {
        pull::start_log(output);
        return work();
    } catch (const Error& problem) {
        std::cerr << "berth: " << problem.what() << '\n';
        return problem.exit_code();
    } catch (const std::exception& problem) {
        std::cerr << "berth: " << word << ": " << printable(problem.what()) << '\n';
        return exit_failure;
    }
}

}  // namespace

int main(int argc, char** argv) {
    for (const auto& [word, command] : words)
        if (argc > 1 && argv[1] == word) {
            prepare_process({});
            return run(argv[1], {}, [&, its = command] { return its(argc - 1, argv + 1); });
        }
    pull::Arguments arguments;
    if (auto code = pull::parse(argc, argv, arguments)) return *code;
    prepare_process(arguments.output);
    if (arguments.of_login) return run("login", arguments.output, [&] { return pull::keep_login(arguments); });
    if (arguments.resolve) return run("resolve", arguments.output, [&] { return pull::resolve_tag(arguments); });
    return pull::pull_image(arguments);
}
