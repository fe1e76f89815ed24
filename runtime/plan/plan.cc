#include "runtime/plan/plan.hh"

#include <linux/capability.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/policy.hh"

namespace berth::plan {

bool HostFacts::has(const std::string& path) const { return std::find(existing.begin(), existing.end(), path) != existing.end(); }

namespace {

const std::vector<std::string> device_nodes = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"};
const std::vector<std::string> host_files = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id", "/etc/localtime"};

// The lists of moby (oci/defaults.go), but for what performance tools read: interrupts and thermal_throttle.
const std::vector<std::string> hidden = {"/proc/acpi",        "/proc/asound", "/proc/kcore",      "/proc/keys",       "/proc/latency_stats", "/proc/sched_debug",
                                         "/proc/scsi",        "/proc/timer_list", "/proc/timer_stats", "/sys/firmware", "/sys/devices/virtual/powercap"};
const std::vector<std::string> protected_paths = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"};

// As docker's: room for links and sockets, none to store things in.
constexpr uint64_t dev_size = 64 << 20;
constexpr size_t volume_limit = 100;

// Only the second version of cgroups has one hierarchy, which can be mounted anew.
constexpr const char* cgroup_file = "/sys/fs/cgroup/cgroup.controllers";

/// Collects edits of one origin in order.
class Edits {
  public:
    explicit Edits(std::vector<Edit>& out) : out_(out) {}
    void add(Action action, std::string origin, std::string reason) { out_.push_back({std::move(action), std::move(origin), std::move(reason)}); }

    Mount& bind(const std::string& source, const std::string& target, std::string origin, std::string reason) {
        Mount mount;
        mount.source = source;
        mount.target = target;
        add(std::move(mount), std::move(origin), std::move(reason));
        return std::get<Mount>(out_.back().action);
    }

    Mount& tmpfs(const std::string& target, uint32_t mode, std::string origin, std::string reason) {
        Mount mount;
        mount.kind = Mount::Kind::tmpfs;
        mount.target = target;
        mount.mode = mode;
        mount.create = Mount::Create::directory;
        add(std::move(mount), std::move(origin), std::move(reason));
        return std::get<Mount>(out_.back().action);
    }

    /// A file system of the kernel's that shows what is the container's own.
    Mount& fresh(Mount::Kind kind, const char* type, const std::string& target, std::string origin, std::string reason) {
        Mount& mount = tmpfs(target, 0755, std::move(origin), std::move(reason));
        mount.kind = kind;
        mount.source = type;
        mount.no_exec = true;
        return mount;
    }

  private:
    std::vector<Edit>& out_;
};

void add_kernel_file_systems(Edits& edits, const HostFacts& host, const OwnNamespaces& own) {
    if (own.pid)
        edits.fresh(Mount::Kind::proc, "proc", "/proc", "option --pid", "the container's own processes");
    else
        edits.bind("/proc", "/proc", "system", "the host's processes: berth keeps the host's pid namespace").create = Mount::Create::directory;
    Mount& sys = edits.bind("/sys", "/sys", "system", "devices and topology, read-only");
    sys.create = Mount::Create::directory;
    sys.read_only = true;
    if (own.cgroup && host.has(cgroup_file)) edits.fresh(Mount::Kind::cgroup, "cgroup2", "/sys/fs/cgroup", "option --cgroup", "the container's own cgroups").read_only = true;
}

/// Terminals are the container's own: one that is made by /dev/ptmx needs the file system of terminals beside it, and the node's would show those of all users.
void add_terminals(Edits& edits, const std::string& callers) {
    Mount& terminals = edits.fresh(Mount::Kind::devpts, "devpts", "/dev/pts", "system", "terminals of the container's own");
    terminals.device = true;
    edits.add(Symlink{"/dev/ptmx", "pts/ptmx"}, "system", "standard link");
    if (callers.empty()) return;
    // ttyname(3) looks into /dev for it.
    Mount& mount = edits.bind(callers, "/dev/console", "system", "the caller's terminal");
    mount.device = true;
    mount.optional = true;
    mount.create = Mount::Create::file;
}

/// Slurm opens the terminal of srun --pty on the node, only once the container has been started.
void add_node_terminals(Edits& edits) {
    Mount& terminals = edits.bind("/dev/pts", "/dev/pts", "slurm", "terminals of srun --pty");
    terminals.device = true;
    terminals.optional = true;
    terminals.create = Mount::Create::directory;
}

void add_devices(Edits& edits, const HostFacts& host, bool own_ipc) {
    edits.tmpfs("/dev", 0755, "system", "a private /dev: only named devices").size = dev_size;
    for (const std::string& node : device_nodes)
        if (host.has(node)) {
            Mount& mount = edits.bind(node, node, "system", "standard device");
            mount.device = true;
            mount.create = Mount::Create::file;
        }
    // The node's message queues belong to the node's ipc namespace.
    if (own_ipc) edits.tmpfs("/dev/shm", 01777, "option --ipc", "shared memory of the container's own");
    for (const char* shared : {"/dev/shm", "/dev/mqueue", "/dev/hugepages"})
        if (host.has(shared) && (!own_ipc || shared == std::string_view("/dev/hugepages"))) edits.bind(shared, shared, "system", "shared memory of the node").create = Mount::Create::directory;
    edits.add(Symlink{"/dev/fd", "/proc/self/fd"}, "system", "standard link");
    edits.add(Symlink{"/dev/stdin", "/proc/self/fd/0"}, "system", "standard link");
    edits.add(Symlink{"/dev/stdout", "/proc/self/fd/1"}, "system", "standard link");
    edits.add(Symlink{"/dev/stderr", "/proc/self/fd/2"}, "system", "standard link");
}

/// A user's own rights forbid most of it already: what he could not do anyway needs no mount.
void add_masks(Edits& edits, const HostFacts& host) {
    for (const std::string& path : host.readable) {
        Mount& mount = edits.tmpfs(path, 0555, "system", "of no use to a job");
        mount.kind = Mount::Kind::mask;
        mount.source = "mask";
        mount.read_only = mount.optional = true;
        mount.create = Mount::Create::none;
    }
    for (const std::string& path : host.writable) {
        Mount& mount = edits.bind(path, path, "system", "settings of the node");
        mount.read_only = mount.optional = true;
        mount.create = Mount::Create::none;
    }
}

void add_volumes(Edits& edits, const ImageConfig& image, uint64_t size) {
    if (image.volumes.size() > volume_limit) throw Error(cat("the image has ", image.volumes.size(), " volumes, more than the limit of ", volume_limit, "; set mount.volumes = \"none\""));
    for (const std::string& path : image.volumes) {
        std::string target = normalised(path.starts_with('/') ? path : "/" + path);
        if (std::string why = forbidden_target(target); !why.empty()) throw Error(cat("the image's volume ", printable(target, 4096), ": ", why, "; set mount.volumes = \"none\""));
        edits.tmpfs(target, 0755, "image", "a volume of the image, by mount.volumes").size = size;
    }
}

void add_host_files(Edits& edits, const HostFacts& host) {
    for (const std::string& file : host_files)
        if (host.has(file)) {
            Mount& mount = edits.bind(file, file, "system", "name resolution, identity and time zone of the node");
            mount.read_only = true;
            mount.optional = true;
            mount.create = Mount::Create::file;
        }
}

/// A field of an account line may hold neither its separators nor a line end.
std::string account_field(std::string text) {
    std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c == ':' || c < 0x20; }, '_');
    return text;
}

void add_accounts(Edits& edits, const Plan& plan, const Caller& caller, const std::string& home) {
    const Identity& id = plan.identity;
    std::string user = plan.remap_root ? "root" : caller.user.empty() ? cat("user", id.inside_uid) : account_field(caller.user);
    std::string group = plan.remap_root ? "root" : caller.group.empty() ? cat("group", id.inside_gid) : account_field(caller.group);
    std::string shell = caller.shell.empty() || plan.remap_root ? "/bin/sh" : account_field(caller.shell);
    AccountLine passwd{"/etc/passwd", cat(user, ":x:", id.inside_uid, ":", id.inside_gid, ":", account_field(caller.gecos), ":", account_field(home), ":", shell), 2};
    edits.add(passwd, "system", "the caller's name");
    edits.add(AccountLine{"/etc/group", cat(group, ":x:", id.inside_gid, ":"), 2}, "system", "the caller's group");
}

/// HOME inside: /root for root, else as outside.
std::string home_inside(const Plan& plan, const Caller& caller) {
    if (plan.remap_root) return "/root";
    return caller.home.empty() ? "/" : normalised(caller.home);
}

void add_home(Edits& edits, bool mount_home, const std::string& home, const Caller& caller) {
    if (home == "/") return;
    if (mount_home && !caller.home.empty())
        edits.bind(caller.home, home, "option --container-mount-home", "the caller's home").create = Mount::Create::directory;
    else
        edits.add(Directory{home, 0755}, "system", "an empty home");
}

void add_user_mounts(Edits& edits, const Request& request, const Caller& caller) {
    const std::string origin = "option --container-mounts";
    for (const MountRequest& wanted : request.mounts) {
        std::string source = wanted.source.empty() || wanted.source[0] == '/' ? wanted.source : cat(caller.cwd, "/", wanted.source);
        std::string target = wanted.target.empty() ? normalised(source) : wanted.target;
        if (std::string why = forbidden_target(target); !why.empty()) throw Error(cat("--container-mounts: ", printable(target, 4096), ": ", why));
        if (wanted.kind == MountRequest::Kind::umount) {
            edits.add(Unmount{target}, origin, "asked for");
            continue;
        }
        Mount& mount = wanted.kind == MountRequest::Kind::tmpfs ? edits.tmpfs(target, 01777, origin, "asked for") : edits.bind(source, target, origin, "asked for");
        mount.read_only = wanted.read_only;
        mount.no_exec = wanted.no_exec;
        mount.optional = wanted.optional;
        mount.recursive = wanted.recursive;
        mount.propagation = wanted.propagation;
        mount.options = wanted.options;
        if (wanted.create != CreateTarget::automatic) mount.create = wanted.create;
    }
}

EnvironmentRules environment_rules(const Plan& plan, const Request& request, const ImageConfig& image, const std::string& home) {
    EnvironmentRules rules;
    rules.image = image.env;
    rules.keep_host = request.env;
    // The host's locale is seldom in the image, and programs complain about that at each start.
    rules.remove = {"LANG", "LANGUAGE", "LC_ALL"};
    bool image_has_home = std::any_of(image.env.begin(), image.env.end(), [](const std::string& text) { return text.starts_with("HOME="); });
    if (plan.remap_root && !image_has_home) rules.set = {cat("HOME=", home)};
    bool image_has_path = std::any_of(image.env.begin(), image.env.end(), [](const std::string& text) { return text.starts_with("PATH="); });
    if (!image_has_path) rules.set.push_back("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    return rules;
}

void set_workdir(Plan& plan, const Request& request, const ImageConfig& image) {
    plan.workdir_required = request.workdir.has_value();
    std::string asked = request.workdir ? *request.workdir : image.working_dir;
    plan.workdir = asked.empty() ? "/" : normalised(asked[0] == '/' ? asked : "/" + asked);
    if (plan.workdir == "/proc" || plan.workdir.starts_with("/proc/"))
        throw Error(cat("the working directory ", printable(plan.workdir), " of the ", request.workdir ? "option --container-workdir" : "image",
                        " lies below /proc and could lead out of the container; use --container-workdir to name another one"));
}

/// Package managers write into directories that nobody may write to (0555 in images of the Red Hat family) and change root for their scripts. These hold for the
/// user's own files and for nothing else: no other id is mapped.
void set_capabilities(Plan& plan) {
    for (int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP, CAP_SYS_CHROOT})
        if (plan.remap_root) plan.capabilities |= 1ULL << capability;
}

}  // namespace

const std::vector<std::string>& host_paths() {
    static const std::vector<std::string> paths = [] {
        std::vector<std::string> all = device_nodes;
        all.insert(all.end(), host_files.begin(), host_files.end());
        for (const char* path : {"/dev/shm", "/dev/mqueue", "/dev/hugepages", cgroup_file}) all.emplace_back(path);
        return all;
    }();
    return paths;
}

const std::vector<std::string>& masked_paths() { return hidden; }
const std::vector<std::string>& read_only_paths() { return protected_paths; }

Plan make_plan(const Request& request, const Caller& caller, const Job& job, const Site& site, const HostFacts& host, const ImageConfig& image,
               const Additions& additions) {
    check_request(site, request, caller, host);
    Plan plan;
    plan.remap_root = request.remap_root.value_or(site.remap_root && may_remap_root(site, caller, host));
    plan.system_calls = {site.seccomp == "default", site.seccomp_allow, site.seccomp_deny};
    set_capabilities(plan);
    plan.writable = request.writable.value_or(site.writable && may_write(site, caller, host));
    plan.unshare = request.unshare;
    plan.tmpfs_size = site.tmpfs_size;
    plan.identity = {caller.uid, plan.remap_root ? 0 : caller.uid, caller.gid, plan.remap_root ? 0 : caller.gid};
    std::string home = home_inside(plan, caller);

    Edits edits(plan.edits);
    add_kernel_file_systems(edits, host, plan.unshare);
    add_devices(edits, host, plan.unshare.ipc);
    job.has_terminal ? add_node_terminals(edits) : add_terminals(edits, caller.terminal);
    if (site.mask) add_masks(edits, host);
    edits.tmpfs("/run", 0755, "system", "a fresh /run").size = plan.tmpfs_size;
    edits.tmpfs("/tmp", 01777, "system", "a fresh /tmp").size = plan.tmpfs_size;
    if (site.volumes == "tmpfs") add_volumes(edits, image, plan.tmpfs_size);
    add_host_files(edits, host);
    add_accounts(edits, plan, caller, home);
    add_home(edits, request.mount_home.value_or(site.mount_home), home, caller);
    if (plan.remap_root)
        edits.add(DropIn{"/etc/apt/apt.conf.d/99berth", "APT::Sandbox::User \"root\";\n"}, "option --container-remap-root",
                  "apt checks that it has become another user, which is only faked here");
    for (const std::string& file : job.bind_read_only) {
        Mount& mount = edits.bind(file, file, "slurm", "a file of the job's or of Slurm's");
        mount.read_only = true;
    }
    for (const std::string& line : job.accounts) edits.add(AccountLine{"/etc/passwd", line, 2}, "slurm", "an account that Slurm's commands look for");
    for (const std::string& folder : job.shared_folders) {
        Mount& mount = edits.bind(folder, folder, "slurm", "where MPI programs meet Slurm's server");
        mount.no_exec = true;
        mount.optional = true;
        mount.create = Mount::Create::directory;
    }
    for (const Edit& edit : additions.edits) edits.add(edit.action, edit.origin, edit.reason);
    add_user_mounts(edits, request, caller);

    set_workdir(plan, request, image);
    plan.environment = environment_rules(plan, request, image, home);
    plan.entrypoint = image.entrypoint;
    plan.environment.set.insert(plan.environment.set.end(), additions.environment.begin(), additions.environment.end());
    plan.devices = additions.devices;
    plan.command = image.entrypoint;
    plan.command.insert(plan.command.end(), image.cmd.begin(), image.cmd.end());
    return plan;
}

}  // namespace berth::plan
