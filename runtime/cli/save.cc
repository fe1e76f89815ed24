// `berth save`: a named container as one squashfs file, written by the program berth-pull.
#include <fcntl.h>

#include <CLI/CLI.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"

namespace berth::cli {

int save(int argc, char** argv) {
    CLI::App app("Write a named container, its image with what it wrote, as one squashfs file. One that runs is saved as it is meanwhile.", "berth save");
    std::string name, output;
    bool force = false, plain = false;
    uint32_t job = 0;
    app.add_option("-o,--output", output, "the file to write")->required();
    app.add_flag("--force", force, "replace it when it exists");
    app.add_flag("--plain", plain, "do not write /etc/environment and /etc/rc for Enroot");
    app.add_option("--job", job, job_help);
    app.add_option("name", name, "of the container")->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : exit_failure;
    }
    ContainerFolder folder = containers_of_caller(job);
    auto record = folder.find(name);
    if (!record) throw Error(cat("saving container ", printable(name), ": there is none of that name; berth ps lists those that are there"));
    Fd hold = folder.hold(name), upper = folder.upper(name);
    // Both go along: the container stays until it is saved.
    for (const Fd* fd : {&hold, &upper})
        if (::fcntl(fd->get(), F_SETFD, 0) != 0) throw SysError(cat("saving container ", name));
    std::vector<std::string> flags;
    if (force) flags.push_back("--force");
    if (plain) flags.push_back("--plain");
    exec_pull_program(save_arguments(*record, name, record->digest.empty() ? "" : store_of_caller().path(), upper.get(), output, flags));
}

}  // namespace berth::cli
