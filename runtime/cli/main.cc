// The program `berth`: a word chooses the command; each command is a file in cli/.
#include <cstdio>
#include <cstring>
#include <exception>

#include "runtime/base/error.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/enroot_program.hh"
#include "runtime/host/own_program.hh"

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
    "berth COMMAND --help lists the options of a command; see also berth(1).\n";

int help(int, char**) {
    std::fputs(usage, stdout);
    return 0;
}

int version(int, char**) {
    std::puts("berth " BERTH_VERSION);
    return 0;
}

Command* command_of(const char* word) {
    struct Entry {
        const char* word;
        Command* run;
    };
    namespace cli = berth::cli;
    static constexpr Entry commands[] = {{"step", cli::step},       {"end-job", cli::end_job},
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
    for (const Entry& entry : commands)
        if (std::strcmp(entry.word, word) == 0) return entry.run;
    return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
    const char* slash = std::strrchr(argv[0], '/');
    if (std::strcmp(slash ? slash + 1 : argv[0], "enroot") == 0) return berth::cli::enroot_program(argc, argv);
    Command* command = argc > 1 ? command_of(argv[1]) : nullptr;
    if (!command) {
        if (argc > 1) std::fprintf(stderr, "berth: there is no command '%s'\n", argv[1]);
        std::fputs(usage, stderr);
        return berth::exit_failure;
    }
    try {
        // What executes an image's commands.
        namespace cli = berth::cli;
        if (command == cli::run || command == cli::profile || command == cli::exec || command == cli::enter)
            berth::leave_own_file(argv);
        return command(argc - 1, argv + 1);
    } catch (const berth::Error& error) {
        std::fprintf(stderr, "berth: %s\n", error.what());
        return error.exit_code();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "berth: %s\n", error.what());
        return berth::exit_failure;
    }
}
