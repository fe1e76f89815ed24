// The programs `apptainer` and `singularity`: links to `berth`, which goes by the name that it is called by.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>

#include "runtime/apptainer/flags.hh"
#include "runtime/apptainer/instead.hh"
#include "runtime/apptainer/start.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer/commands.hh"
#include "runtime/cli/apptainer_program.hh"
#include "runtime/cli/listing.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/own_program.hh"

namespace berth::cli {

namespace {

/// The release whose command lines these are; what stands behind the + is no part of it for those who compare.
constexpr const char* version_text = "1.5.3+berth." BERTH_VERSION;

/// Apptainer's code for whatever fails before the command runs.
constexpr int exit_fatal = 255;

constexpr const char* usage =
    "usage: apptainer [global flags] COMMAND [flags]\n"
    "\n"
    "Command lines of Apptainer and Singularity, done by Berth.\n"
    "\n"
    "  exec  [flags] IMAGE COMMAND ...     run a command in a container\n"
    "  run   [flags] IMAGE [arguments]     run what the image is for\n"
    "  shell [flags] IMAGE                 run a shell in a container\n"
    "  test  [flags] IMAGE                 run the tests that the image has\n"
    "  pull  [flags] [FILE] URI            write an image as a SIF file\n"
    "  build [flags] FILE SOURCE           write an image, file or directory as a SIF file\n"
    "  inspect [flags] IMAGE               print what an image says of itself\n"
    "  push  [flags] FILE URI              bring a SIF file to a registry\n"
    "  instance start|run|list|stop|stats  containers that run in the background\n"
    "  verify [flags] IMAGE                verify the signatures in a SIF file\n"
    "  sif list|header|info|dump           print what is in a SIF file\n"
    "  key list|import|remove              keys by which SIF files are verified\n"
    "  cache list|clean                    images in Berth's store\n"
    "  registry login|logout URI           keep a login for a registry\n"
    "  version                             print the version\n"
    "\n"
    "IMAGE: a SIF or squashfs file, a directory, docker://NAME[:TAG], oras://REGISTRY/NAME[:TAG], oci:DIR,\n"
    "oci-archive:FILE, docker-archive:FILE, instance://NAME\n"
    "\n"
    "global flags: -q,--quiet  -s,--silent  -v,--verbose  -d,--debug  --nocolor  --version  -h,--help\n"
    "\n"
    "apptainer COMMAND --help lists the flags of a command; see also apptainer(1).\n";

void print(const char* kind, const std::string& line) {
    std::fprintf(stderr, "%-8s %s\n", kind, line.c_str());
}

int version(int, char**, const ApptainerSettings&) {
    std::puts(version_text);
    return 0;
}

int help(int, char**, const ApptainerSettings&) {
    std::fputs(usage, stdout);
    return 0;
}

ApptainerCommand* command_of(std::string_view word) {
    struct Entry {
        const char* word;
        ApptainerCommand* run;
    };
    static constexpr Entry commands[] = {{"exec", apptainer_exec},
                                         {"run", apptainer_run},
                                         {"shell", apptainer_shell},
                                         {"test", apptainer_test},
                                         {"pull", apptainer_pull},
                                         {"inspect", apptainer_inspect},
                                         {"cache", apptainer_cache},
                                         {"registry", apptainer_registry},
                                         {"build", apptainer_build},
                                         {"sif", apptainer_sif},
                                         {"siftool", apptainer_sif},
                                         {"verify", apptainer_verify},
                                         {"key", apptainer_key},
                                         {"instance", apptainer_instance},
                                         {"push", apptainer_push},
                                         {"version", version},
                                         {"help", help}};
    for (const Entry& entry : commands)
        if (entry.word == word) return entry.run;
    return nullptr;
}

/// Whether one of Apptainer's variables says yes.
bool is_set(const char* name) {
    for (const char* prefix : {"APPTAINER_", "SINGULARITY_"})
        if (const char* value = std::getenv(cat(prefix, name).c_str()))
            return *value != '\0' && std::string_view(value) != "0" && lower(value) != "false";
    return false;
}

ApptainerSettings settings_of_environment() {
    Loudness loudness = is_set("SILENT")                       ? Loudness::silent
                        : is_set("QUIET")                      ? Loudness::quiet
                        : is_set("DEBUG") || is_set("VERBOSE") ? Loudness::debug
                                                               : Loudness::normal;
    return {.loudness = loudness, .debug = is_set("DEBUG") || debug::is_wanted(std::getenv("BERTH_LOG"))};
}

/// Takes the flags before the command, of which the first word comes to be `argv[0]`; the exit code where that is all.
std::optional<int> take_global_flags(int& argc, char**& argv, ApptainerSettings& settings) {
    auto next = [&] { --argc, ++argv; };
    for (next(); argc > 0 && argv[0][0] == '-'; next()) {
        std::string_view word = argv[0];
        if (word == "--version") return std::printf("apptainer version %s\n", version_text), 0;
        if (word == "-h" || word == "--help") return help(argc, argv, settings);
        if (word == "-q" || word == "--quiet")
            settings.loudness = Loudness::quiet;
        else if (word == "-s" || word == "--silent")
            settings.loudness = Loudness::silent;
        else if (word == "-v" || word == "--verbose")
            settings.loudness = Loudness::debug;
        else if (word == "-d" || word == "--debug")
            settings = {.loudness = Loudness::debug, .debug = true};
        else if (word == "-c" || word == "--config" || word == "--build-config")
            throw Error(cat(word, ": settings are the site's, in /etc/berth/berth.conf"));
        else if (word != "--nocolor")
            throw Error(cat(printable(word), " is no flag of apptainer; apptainer --help lists them"));
    }
    return std::nullopt;
}

int run_command(int argc, char** argv, ApptainerSettings settings) {
    char** all = argv;
    if (auto code = take_global_flags(argc, argv, settings)) return *code;
    if (settings.debug) {
        debug::start("apptainer");
        // For the programs that this one starts.
        ::setenv("BERTH_LOG", "debug", 1);
    }
    if (argc == 0) {
        std::fputs(usage, stderr);
        return 1;
    }
    ApptainerCommand* command = command_of(argv[0]);
    if (!command) throw Error(apptainer::instead_of(argv[0]));
    // What executes an image's commands.
    for (ApptainerCommand* one :
         {apptainer_exec, apptainer_run, apptainer_shell, apptainer_test, apptainer_instance})
        if (command == one) leave_own_file(all);
    return command(argc, argv, settings);
}

}  // namespace

int tell_fatal(const std::exception& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    // cwltool looks for these words, to learn whether containers can be made at all.
    bool is_missing = ours != nullptr && ours->exit_code() == exit_not_found;
    print("FATAL:", cat(error.what(), is_missing ? " (executable file not found in $PATH)" : ""));
    return exit_fatal;
}

void tell_info(const ApptainerSettings& settings, const std::string& line) {
    if (settings.loudness >= Loudness::normal) print("INFO:", line);
}

void tell_warning(const ApptainerSettings& settings, const std::string& line) {
    if (settings.loudness != Loudness::silent) print("WARNING:", line);
}

void tell_of_places(const std::vector<std::string>& environment, bool with_tmpdir, const ApptainerSettings& settings) {
    std::string names = apptainer::places_asked_for(environment, with_tmpdir);
    if (names.empty()) return;
    std::string store = open_store(site_of_caller(), caller_of_this_process()).location();
    tell_info(settings, cat(names, ": no effect; images are pulled and kept in ", printable(store, 4096),
                            ", which the site chooses by store.path of berth.conf"));
}

void tell_note(const ApptainerSettings& settings, const std::string& line) {
    constexpr std::string_view warning = "warning: ";
    if (line.starts_with(warning))
        tell_warning(settings, line.substr(warning.size()));
    else
        tell_info(settings, line);
}

int apptainer_program(int argc, char** argv) {
    try {
        return run_command(argc, argv, settings_of_environment());
    } catch (const std::exception& error) {
        return tell_fatal(error);
    }
}

}  // namespace berth::cli
