#include "runtime/cli/run_options.hh"

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/task_process.hh"
#include "runtime/host/facts.hh"
#include "runtime/plan/plan.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"

namespace berth::cli {

namespace {

/// The texts as given, before the grammars of plan/ look at them.
struct Given {
    std::vector<std::string> mounts;
    std::vector<std::string> env;
    std::string workdir;
    bool mount_home = false, no_mount_home = false, root = false, no_root = false, writable = false, read_only = false;
    bool entrypoint = false, no_entrypoint = false, interactive = false;
};

void declare(CommandLine& line, Given& given, RunOptions& options) {
    line.option("--mount", given.mounts,
                "SRC[:DST[:FLAG+FLAG]][,...]: mount host paths, tmpfs, or umount a default mount");
    line.option("-w,--workdir", given.workdir, "working directory in the container");
    line.option("-e,--env", given.env, "NAME: the value outside beats the image's; NAME=VALUE: set it");
    auto home = line.flag("--mount-home", given.mount_home, "mount the home directory");
    line.flag("--no-mount-home", given.no_mount_home, "do not").excludes(home);
    auto root = line.flag("--root", given.root, "be user 0 inside");
    line.flag("--no-root", given.no_root, "do not").excludes(root);
    auto rw =
        line.flag("--rw", given.writable, "the root file system can be written to: in memory, or on disk with --name");
    line.flag("--ro,--read-only", given.read_only, "it cannot").excludes(rw);
    auto entrypoint =
        line.flag("--entrypoint", given.entrypoint, "run the image's entrypoint, with the command as its arguments");
    line.flag("--no-entrypoint", given.no_entrypoint, "do not, even when there is no command").excludes(entrypoint);
    line.option("--name", options.name,
                "NAME[:auto|create|exec|no_exec]: a container that stays, and can be used again by this name");
    line.option("--save", options.save,
                "FILE: when the command ends with 0, write the container as one squashfs file, replacing another one");
    plan::OwnNamespaces& own = options.request.unshare;
    line.flag("--ipc", own.ipc, "System V and POSIX shared memory and queues of the container's own");
    line.flag("--net", own.net, "a network of its own, with nothing but loopback");
    line.flag("--uts", own.uts, "a host name of its own");
    line.flag("--pid", own.pid, "processes of its own: it sees and signals no others, and all end with it");
    line.flag("--cgroup", own.cgroup, "cgroups seen from its own on");
    line.flag("-i,--interactive", given.interactive, interactive_help);
    line.flag("-t,--tty", options.terminal, terminal_help);
    line.flag("-v,--verbose", options.verbose, "print the time of each phase");
    line.flag("-q,--quiet", options.quiet, "show no progress of a pull");
    line.argument("image", options.request.image,
                  "REGISTRY/NAME:TAG, NAME@sha256:..., a path, oci:DIR, oci-archive:FILE, docker-archive:FILE, "
                  "dockerd://NAME, podman://NAME")
        .required();
}

std::optional<bool> choice(bool yes, bool no) {
    if (yes || no) return yes;
    return std::nullopt;
}

void interpret(const Given& given, RunOptions& options) {
    plan::Request& request = options.request;
    for (const std::string& text : given.mounts)
        for (plan::MountRequest& mount : plan::parse_mounts(text)) request.mounts.push_back(std::move(mount));
    options.mounts = given.mounts;
    take_environment(given.env, options);
    if (!given.workdir.empty()) request.workdir = plan::parse_workdir(given.workdir);
    request.mount_home = choice(given.mount_home, given.no_mount_home);
    request.remap_root = choice(given.root, given.no_root);
    request.writable = choice(given.writable, given.read_only);
    options.entrypoint = choice(given.entrypoint, given.no_entrypoint);
}

}  // namespace

std::vector<std::string> command_of(const RunOptions& options, const plan::ImageConfig& image) {
    std::vector<std::string> out;
    if (options.entrypoint.value_or(options.command.empty())) out = image.entrypoint;
    const std::vector<std::string>& rest = options.command.empty() ? image.cmd : options.command;
    out.insert(out.end(), rest.begin(), rest.end());
    if (out.empty())
        throw Error(cat("running ", printable(options.request.image, 4096),
                        ": the image names no command; write one after the image"),
                    exit_not_found);
    return out;
}

std::vector<std::string> environment_with(const std::vector<std::string>& set) {
    std::vector<plan::EnvironmentChange> changes;
    for (const std::string& text : set)
        changes.push_back({text.substr(0, text.find('=')), text.substr(text.find('=') + 1)});
    return changed_environment(environment_of_this_process(), changes);
}

void take_environment(const std::vector<std::string>& texts, RunOptions& options) {
    for (const std::string& text : texts) {
        size_t equals = text.find('=');
        std::vector<std::string> names = plan::parse_env_names(text.substr(0, equals));
        if (equals != std::string::npos && names.size() > 1)
            throw Error(cat("--env: ", printable(text), ": a value is for one name; repeat the option"));
        options.request.env.insert(options.request.env.end(), names.begin(), names.end());
        if (equals != std::string::npos) options.set.push_back(text);
    }
}

bool parse_run_options(const std::string& word, int argc, char** argv, RunOptions& options, int& code) {
    CommandLine line(word == "run" ? "Run a command in a container."
                                   : "Print what `berth run` would do with the same options, and why.",
                     "berth " + word);
    line.only_for(argc, argv);
    Given given;
    declare(line, given, options);
    if (word == "plan") {
        auto json = line.flag("--json", options.json, "print it as JSON");
        line.flag("--cdi", options.cdi,
                  "print what hooks add as a CDI specification with the device nvidia.com/gpu=all")
            .excludes(json);
    }
    line.ends_with_command(options.command);
    if (auto done = line.parse(argc, argv)) {
        code = *done;
        return false;
    }
    interpret(given, options);
    return true;
}

}  // namespace berth::cli
