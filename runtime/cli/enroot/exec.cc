// `enroot exec`: a command in the container of a process.
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "runtime/base/error.hh"
#include "runtime/base/inherited.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/enroot/commands.hh"
#include "runtime/cli/enroot/containers.hh"
#include "runtime/cli/run_named.hh"
#include "runtime/config/command_line.hh"
#include "runtime/container/named/helper.hh"
#include "runtime/container/task_process.hh"
#include "runtime/plan/plan.hh"
#include "runtime/sandbox/seccomp.hh"

namespace berth::cli {

namespace {

constexpr size_t environment_limit = 16 << 20;

/// A container as a process of it sees it.
struct Entered {
    StartedContainer container;
    Fd connection = Fd();  ///< to its helper, while which is open it stays; empty: its processes alone keep it
};

/// The value of a line "KEY:\tVALUE" of /proc/PID/status; empty for none.
std::string status_field(const std::string& process, std::string_view key) {
    for (const std::string& line : split(sys::read_file(process + "/status"), '\n'))
        if (line.starts_with(key)) return std::string(trimmed(std::string_view(line).substr(key.size())));
    return {};
}

uint64_t capabilities_of(const std::string& process) {
    std::string digits = status_field(process, "CapEff:");
    uint64_t out = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    return out;
}

/// The first number of a map of ids, which has one line in a container: the only id inside.
uint32_t id_inside(const std::string& map) {
    std::string text = sys::read_file(map);
    std::string_view digits = trimmed(text);
    uint32_t out = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return out;
}

ino_t inode_of_namespace(const std::string& process, const char* word) {
    return sys::stat_of(sys::open_file(cat(process, "/ns/", word), O_RDONLY).get(), "a namespace").st_ino;
}

std::string directory_of(const std::string& process) {
    char path[4096];
    ssize_t size = ::readlink((process + "/cwd").c_str(), path, sizeof path);
    return size > 0 ? std::string(path, static_cast<size_t>(size)) : "/";
}

/// Whether a namespace is the container's, made in its user namespace, and not one of the node that it was started in.
bool is_owned_by(const Fd& space, const Fd& user_namespace) {
    Fd owner(::ioctl(space.get(), NS_GET_USERNS));
    return owner && sys::stat_of(owner.get(), "a namespace's owner").st_ino ==
                        sys::stat_of(user_namespace.get(), "the user namespace").st_ino;
}

/// By its namespaces, with the filter that its site gives such a container.
StartedContainer container_of(const std::string& process, const plan::Site& site) {
    StartedContainer out;
    out.user_namespace = sys::open_file(process + "/ns/user", O_RDONLY);
    out.mount_namespace = sys::open_file(process + "/ns/mnt", O_RDONLY);
    for (const plan::NamespaceKind& kind : plan::namespace_kinds) {
        Fd space = sys::open_file(cat(process, "/ns/", kind.word), O_RDONLY);
        if (is_owned_by(space, out.user_namespace)) out.namespaces.push_back({kind.type, std::move(space)});
    }
    out.capabilities = capabilities_of(process);
    const plan::SecuritySettings& security = site.security;
    sandbox::OwnIds own{id_inside(process + "/uid_map"), id_inside(process + "/gid_map")};
    sandbox::FilterRules rules{security.seccomp == plan::Seccomp::built_in, own.uid == 0, security.seccomp_allow,
                               security.seccomp_deny, sandbox::kernel_has_x32()};
    if (security.fake_chown) rules.own_ids = own;
    if (security.nested == plan::Nested::always)
        rules.allow.insert(rules.allow.end(), plan::nesting_calls().begin(), plan::nesting_calls().end());
    out.seccomp_program = sandbox::filter_for(rules);
    return out;
}

/// By the helper of the named container that the process is in, so that the container does not end meanwhile.
std::optional<Entered> by_helper(const FrontEnd& front, const std::string& process,
                                 const std::vector<std::string>& environment) {
    ino_t wanted = inode_of_namespace(process, "user");
    for (const ContainerFolder& folder : front.folders())
        for (const std::string& name : folder.names()) try {
                Fd connection = folder.connect(name);
                auto info = connection ? ask_for_status(connection.get()) : std::nullopt;
                if (!info || info->user_namespace != wanted) continue;
                connection = folder.connect(name);
                auto joined = connection ? ask_to_join(connection.get(), environment) : std::nullopt;
                if (joined) return Entered{std::move(joined->container), std::move(connection)};
            } catch (const Error&) {
                // Another one's trouble is no concern of this one.
            }
    return std::nullopt;
}

std::string process_of(const std::string& text) {
    uint64_t pid = 0;
    std::string process = "/proc/" + text;
    struct stat st {};
    if (!parse_number(text, INT32_MAX, pid) || ::stat(process.c_str(), &st) != 0)
        throw Error(cat("Process not found: ", printable(text), "; enroot list --fancy has their numbers"), 1);
    if (inode_of_namespace(process, "user") == inode_of_namespace("/proc/self", "user"))
        throw Error(cat("process ", text, " is in no container; enroot list --fancy has those that are"), 1);
    return process;
}

/// Those of the process, with --env.
std::vector<std::string> environment_of(const std::string& process, const RunOptions& options) {
    std::vector<std::string> out = split(sys::read_file(process + "/environ", environment_limit), '\0');
    std::erase(out, "");
    std::vector<plan::EnvironmentChange> changes;
    for (const std::string& text : environment_for(options)) {
        std::string name = text.substr(0, text.find('='));
        const std::vector<std::string>& asked = options.request.env;
        if (std::find(asked.begin(), asked.end(), name) != asked.end())
            changes.push_back({name, text.substr(name.size() + 1)});
    }
    return changed_environment(std::move(out), changes);
}

int execute_in(Entered& entered, const std::vector<std::string>& command,
               const std::vector<std::string>& environment) {
    sigset_t watched = forwarded_signals();
    ::sigprocmask(SIG_BLOCK, &watched, nullptr);
    Task task = start_task(entered.container, command, environment);
    int code = attend_task(task, watched, entered.connection.get());
    if (entered.connection) leave(std::move(entered.connection));
    return code;
}

}  // namespace

int enroot_exec(int argc, char** argv) {
    CommandLine line("Run a command in the container of a process.", "enroot exec");
    std::string pid;
    std::vector<std::string> variables;
    RunOptions options;
    line.option("-e,--env", variables, "KEY: the value that is set outside; KEY=VALUE: set it")
        .completed_by(Completion::variables);
    line.argument("PID", pid, "of a process in the container, see enroot list --fancy").required();
    line.ends_with_command(options.command);
    if (auto code = line.parse(argc, argv)) return *code == 0 ? 0 : 1;
    InheritedDescriptors inherited(pmi_descriptor());
    if (options.command.empty()) throw Error("enroot exec PID COMMAND: the command is missing", 1);
    take_environment(variables, options);
    FrontEnd front = front_end();
    std::string process = process_of(pid);
    std::vector<std::string> environment = environment_of(process, options);
    auto entered = by_helper(front, process, environment);
    if (!entered) entered = Entered{container_of(process, front.site)};
    entered->container.workdir = directory_of(process);
    return execute_in(*entered, options.command, environment);
}

}  // namespace berth::cli
