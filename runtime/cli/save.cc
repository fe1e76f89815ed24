// `berth save`: a named container as one squashfs file, written by the program berth-pull.
#include <fcntl.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/cli/save_named.hh"
#include "runtime/config/command_line.hh"

namespace berth::cli {

void save_named(const ContainerFolder& folder, const std::string& name, const std::string& output,
                const std::vector<std::string>& flags) {
    auto record = folder.find(name);
    if (!record)
        throw Error(cat("saving container ", printable(name),
                        ": there is none of that name; berth ps lists those that are there"));
    Lock hold = folder.hold(name);
    Fd upper = folder.upper(name);
    // Both go along: the container stays until it is saved.
    for (int fd : {hold.fd(), upper.get()})
        if (::fcntl(fd, F_SETFD, 0) != 0) throw SysError(cat("saving container ", name));
    plan::Site site = site_of_caller();
    std::string store = record->digest.empty() ? "" : open_callers_store(site).location();
    exec_pull_program(
        save_arguments({*record, name, store, site.mount.modes}, upper.get(), output, flags));
}

int save(int argc, char** argv) {
    CommandLine line(
        "Write a named container, its image with what it wrote, as one squashfs file. One that runs is saved as it is "
        "meanwhile.",
        "berth save");
    std::string name, output;
    bool force = false, plain = false;
    uint32_t job = 0;
    line.option("-o,--output", output, "the file to write").required().completed_by(Completion::files);
    line.flag("--force", force, "replace an existing file");
    line.flag("--plain", plain, "do not write /etc/environment and /etc/rc for Enroot");
    line.option("--job", job, job_help).completed_by(Completion::jobs);
    line.argument("name", name, "of the container").required();
    if (auto code = line.parse(argc, argv)) return *code;
    std::vector<std::string> flags;
    if (force) flags.push_back("--force");
    if (plain) flags.push_back("--plain");
    save_named(containers_of_caller(job), name, output, flags);
}

}  // namespace berth::cli
