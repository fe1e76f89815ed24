// The program `enroot`: a link to `berth`, which goes by the name that it is called by.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/enroot_program.hh"
#include "runtime/enroot/settings.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/own_program.hh"

namespace berth::cli {

namespace {

/// The release whose command lines these are; what stands behind the + is no part of it for those who compare.
constexpr const char* version_text = "4.1.2+berth." BERTH_VERSION;

constexpr const char* usage =
    "usage: enroot COMMAND [options]\n"
    "\n"
    "Command lines of Enroot, done by Berth.\n"
    "\n"
    "  import [options] URI                write an image as a squashfs file\n"
    "  create [options] FILE               make a container of a squashfs file\n"
    "  load   [options] URI                make a container of an image of a registry\n"
    "  start  [options] NAME|FILE [command ...]\n"
    "                                      run a command in a container, or in a squashfs file\n"
    "  exec   [options] PID command ...    run a command in the container of a process\n"
    "  list   [--fancy]                    list the containers\n"
    "  export [options] NAME               write a container as a squashfs file\n"
    "  remove [--force] NAME ...           remove containers\n"
    "  batch  FILE [command ...]           start what a configuration script says\n"
    "  digest [options] URI                print the digest of an image\n"
    "  info                                print the settings\n"
    "  version                             print the version\n"
    "\n"
    "enroot COMMAND --help lists the options of a command; see also enroot(1).\n";

int help(int, char**) {
    std::fputs(usage, stdout);
    return 0;
}

int version(int, char**) {
    std::puts(version_text);
    return 0;
}

int info(int, char**) {
    std::printf("Enroot version: %s\nConfig file: %s\n\nEnvironment variables:\n", version_text, site_path);
    for (const std::string& text : environment_of_this_process())
        if (text.starts_with("ENROOT_")) std::printf("  %s\n", printable(text, 4096).c_str());
    return 0;
}

int bundle(int, char**) {
    throw Error(
        "enroot bundle: Berth makes no program of an image; start the .sqsh itself where Berth is installed (enroot "
        "start FILE.sqsh), or copy it there",
        1);
}

EnrootCommand* command_of(const char* word) {
    struct Entry {
        const char* word;
        EnrootCommand* run;
    };
    static constexpr Entry commands[] = {
        {"import", enroot_import}, {"create", enroot_create}, {"load", enroot_load},     {"start", enroot_start},
        {"exec", enroot_exec},     {"list", enroot_list},     {"export", enroot_export}, {"remove", enroot_remove},
        {"batch", enroot_batch},   {"digest", enroot_digest}, {"bundle", bundle},        {"info", info},
        {"version", version},      {"--version", version},    {"help", help},            {"--help", help},
        {"-h", help}};
    for (const Entry& entry : commands)
        if (std::strcmp(entry.word, word) == 0) return entry.run;
    return nullptr;
}

/// Enroot's are 1 for all that fails before the command runs.
int exit_code_of(const Error& error) { return error.exit_code() == exit_failure ? 1 : error.exit_code(); }

/// Enroot traces its scripts where ENROOT_DEBUG is set.
void start_log() {
    std::vector<std::string> environment = environment_of_this_process();
    if (!debug::is_wanted(variable(environment, "BERTH_LOG")) && value_in(environment, "ENROOT_DEBUG").empty()) return;
    debug::start("enroot");
    // For the programs that this one starts.
    ::setenv("BERTH_LOG", "debug", 1);
}

}  // namespace

void say(const char* kind, const std::string& line) { std::fprintf(stderr, "[%s] %s\n", kind, line.c_str()); }

int enroot_program(int argc, char** argv) {
    EnrootCommand* command = argc > 1 ? command_of(argv[1]) : nullptr;
    if (!command) {
        if (argc > 1) say("ERROR", cat("there is no command '", printable(argv[1]), "'"));
        std::fputs(usage, stderr);
        return 1;
    }
    try {
        start_log();
        // What executes an image's commands.
        if (command == enroot_start || command == enroot_batch || command == enroot_exec) leave_own_file(argv);
        return command(argc - 1, argv + 1);
    } catch (const Error& error) {
        say("ERROR", error.what());
        return exit_code_of(error);
    } catch (const std::exception& error) {
        say("ERROR", error.what());
        return 1;
    }
}

}  // namespace berth::cli
