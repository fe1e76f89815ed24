// The program `berth`: a word chooses the command; each command is a file in cli/.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/debug_log.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/nearest.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/apptainer_program.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/enroot_program.hh"
#include "runtime/config/site_file.hh"
#include "runtime/host/own_program.hh"
#include "runtime/request/unknown_variables.hh"

namespace {

using berth::cli::Command;

constexpr const char* usage =
    "usage: berth COMMAND [options]\n"
    "\n"
    "  run [options] IMAGE [command ...]   run a command in a container\n"
    "  exec [options] NAME [command ...]   run a command in a named container\n"
    "  exec --job JOB[.STEP] -- [command]  run a command in the container of a job's step\n"
    "  ssh-config JOB[.STEP]               print how ssh reaches the container of a job's step\n"
    "  ps [--json]                         list the named containers\n"
    "  save -o FILE NAME                   write a named container as one squashfs file\n"
    "  rm [--force] NAME ...               remove named containers\n"
    "  plan [options] IMAGE                print what run would do, and why\n"
    "  pull [options] IMAGE                bring an image into the store\n"
    "  mirror [--publish] [--prune] FILE   pull the images that a file lists\n"
    "  import -o FILE IMAGE                write an image as one squashfs file\n"
    "  images [--json]                     list the images in the store\n"
    "  inspect [--json] IMAGE              print digest, size, settings and layers of an image\n"
    "  rmi IMAGE ...                       remove images from the store\n"
    "  gc [options]                        remove old and unneeded images and layers\n"
    "  verify [--deep] [--repair]          check every byte of the store\n"
    "  sign --key KEY IMAGE                sign an image in its registry\n"
    "  publish [--to REGISTRY/NAME] IMAGE  publish an image's layers as Berth runs them\n"
    "  profile IMAGE [command ...]         run a command, and keep what it reads of the image\n"
    "  login [options] REGISTRY            log in to a registry\n"
    "  logout REGISTRY                     remove it\n"
    "  environment list|show [NAME|FILE]   list environment files, or print what one comes to\n"
    "  config show|check [FILE]            print settings and their origin, or check a file\n"
    "  devices [--json]                    list this node's devices, and which a container gets\n"
    "  doctor [--json]                     check whether this node can run containers\n"
    "  setup plugstack --enable|--disable  have Slurm load the plugin, or no longer\n"
    "  migrate [options]                   write berth.conf from the settings of Enroot and Pyxis\n"
    "  stats [--json|--prometheus]         print counts of starts and pulls on this node\n"
    "  report [--job JOB] [--html FILE]    show what starts took, from events.log\n"
    "  version                             print the version\n"
    "\n"
    "berth COMMAND --help lists the options of a command; see also berth(1).\n"
    "With BERTH_LOG=debug in the environment each part tells what it decides, and why.\n";

Command* command_of(const char* word);
std::string unknown_command(const std::string& word);

/// `berth help run` is `berth run --help`.
int help(int argc, char** argv) {
    Command* command = argc > 1 ? command_of(argv[1]) : nullptr;
    if (argc > 1 && !command) throw berth::Error(unknown_command(argv[1]));
    if (!command || command == help) {
        std::fputs(usage, stdout);
        return 0;
    }
    char option[] = "--help";
    char* words[] = {argv[1], option, nullptr};
    return command(2, words);
}

int version(int, char**) {
    std::puts("berth " BERTH_VERSION);
    return 0;
}

/// Not of commands that the plugin and other programs of Berth's call.
bool is_for_people(Command* command) {
    namespace cli = berth::cli;
    Command* others[] = {cli::step, cli::end_job, cli::end_step, cli::enter,       cli::resolve,
                         cli::agree, cli::define, cli::nvml,     cli::srun_options};
    return std::ranges::find(others, command) == std::end(others);
}

struct Entry {
    const char* word;
    Command* run;
};

std::span<const Entry> commands() {
    namespace cli = berth::cli;
    static constexpr Entry all[] = {{"step", cli::step},       {"end-job", cli::end_job},
                                         {"end-step", cli::end_step}, {"enter", cli::enter},
                                         {"ssh-config", cli::ssh_config},
                                         {"resolve", cli::resolve}, {"agree", cli::agree},
                                         {"define", cli::define},   {"environment", cli::environment},
                                         {"run", cli::run},         {"exec", cli::exec},
                                         {"ps", cli::ps},           {"save", cli::save},
                                         {"rm", cli::rm},           {"plan", cli::plan},
                                         {"pull", cli::pull},       {"images", cli::images},
                                         {"mirror", cli::mirror},     {"sign", cli::sign},
                                         {"publish", cli::publish}, {"profile", cli::profile},
                                         {"inspect", cli::inspect}, {"rmi", cli::rmi},
                                         {"gc", cli::gc},           {"import", cli::import},
                                         {"verify", cli::verify},   {"login", cli::login},
                                         {"logout", cli::logout},   {"doctor", cli::doctor},
                                         {"devices", cli::devices},
                                         {"stats", cli::stats},     {"config", cli::config},
                                         {"report", cli::report},
                                         {"nvml", cli::nvml},       {"srun-options", cli::srun_options},
                                         {"setup", cli::setup},     {"migrate", cli::migrate},
                                         {"version", version},      {"--version", version},
                                         {"help", help},            {"--help", help},
                                         {"-h", help}};
    return all;
}

Command* command_of(const char* word) {
    for (const Entry& entry : commands())
        if (std::strcmp(entry.word, word) == 0) return entry.run;
    return nullptr;
}

std::string unknown_command(const std::string& word) {
    std::vector<std::string> words;
    for (const Entry& entry : commands())
        if (is_for_people(entry.run)) words.emplace_back(entry.word);
    return berth::cat("there is no command ", berth::printable(word), "; berth help lists those that there are",
                      berth::meant(word, words));
}

/// The plugin's are started with the environment of a job, of which srun has told.
void note_unknown_variables(Command* command) {
    if (!is_for_people(command) || command == help || command == version) return;
    std::vector<std::string> environment = berth::environment_of_this_process();
    std::vector<std::string> unknown = berth::plan::unknown_variables(environment);
    for (std::string& one : berth::plan::unknown_key_variables(environment)) unknown.push_back(std::move(one));
    if (std::string note = berth::plan::unknown_variables_note(unknown); !note.empty())
        std::fprintf(stderr, "berth: %s\n", note.c_str());
}

/// A step's start says what is wrong with the variable; srun's programs do not say it again.
void start_log(Command* command) {
    const char* value = std::getenv("BERTH_LOG");
    if (is_for_people(command) ? berth::debug::is_wanted(value) : berth::debug::asks_for_log(value))
        berth::debug::start("berth");
}

}  // namespace

int main(int argc, char** argv) {
    const char* slash = std::strrchr(argv[0], '/');
    std::string_view name = slash ? slash + 1 : argv[0];
    if (name == "enroot") return berth::cli::enroot_program(argc, argv);
    if (name == "apptainer" || name == "singularity") return berth::cli::apptainer_program(argc, argv);
    Command* command = argc > 1 ? command_of(argv[1]) : nullptr;
    if (!command) {
        if (argc > 1)
            std::fprintf(stderr, "berth: %s\n", unknown_command(argv[1]).c_str());
        else
            std::fputs(usage, stderr);
        return berth::exit_failure;
    }
    try {
        // What executes an image's commands.
        namespace cli = berth::cli;
        if (command == cli::run || command == cli::profile || command == cli::exec || command == cli::enter)
            berth::leave_own_file(argv);
        start_log(command);
        berth::debug::log("command", "berth " BERTH_VERSION ": ", argv[1]);
        note_unknown_variables(command);
        return command(argc - 1, argv + 1);
    } catch (const berth::Error& error) {
        std::fprintf(stderr, "berth: %s\n", error.what());
        return error.exit_code();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "berth: %s\n", error.what());
        return berth::exit_failure;
    }
}
