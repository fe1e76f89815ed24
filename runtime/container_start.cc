#include "runtime/container_start.hh"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/edits.hh"
#include "runtime/mount/root.hh"
#include "runtime/mount/server.hh"
#include "runtime/mount/upper.hh"
#include "runtime/mount/upper_layer.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/init.hh"
#include "runtime/sandbox/processes.hh"
#include "runtime/sandbox/seccomp.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "runtime/squash/data.hh"

namespace berth {

namespace {

// Needs no privilege over the node: any process has it in a user namespace of its own. See end_container.
constexpr uint64_t kept_capabilities = 1ULL << CAP_SYS_PTRACE;

/// Records how long each part took.
class Stopwatch {
  public:
    explicit Stopwatch(std::vector<plan::PhaseTime>& phases) : phases_(phases) {}
    void lap(const char* name) {
        auto now = std::chrono::steady_clock::now();
        phases_.push_back({name, static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - last_).count())});
        last_ = now;
    }

  private:
    std::vector<plan::PhaseTime>& phases_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// What is created in the container gets the modes that the plan says, whatever the caller's umask.
class PlainUmask {
  public:
    PlainUmask() : before_(::umask(0)) {}
    ~PlainUmask() { ::umask(before_); }
    PlainUmask(const PlainUmask&) = delete;
    PlainUmask& operator=(const PlainUmask&) = delete;

  private:
    mode_t before_;
};

/// Leaves the node's namespaces that the plan says, and keeps the new ones for those who join.
void enter_own_namespaces(StartedContainer& container, const plan::OwnNamespaces& own) {
    for (const plan::NamespaceKind& kind : plan::namespace_kinds) {
        // That of processes is not for this one, which serves them, but for those that it starts.
        if (!(own.*kind.wanted) || kind.type == CLONE_NEWPID) continue;
        if (int number = sys::unshare(kind.type); number != 0)
            throw Error(cat("giving the container a ", kind.name, " namespace of its own: ", reason(number),
                            number == ENOSPC ? cat("; raise user.max_", kind.word, "_namespaces (sysctl)") : ""));
        container.namespaces.push_back({kind.type, sys::open_file(cat("/proc/self/ns/", kind.word), O_RDONLY)});
    }
    if (own.net) sys::raise_loopback();
}

/// Makes the pid namespace, when one is wanted; the result is its /proc. Before threads are started, whose memory the first process would share.
Fd start_own_processes(StartedContainer& container, const plan::OwnNamespaces& own) {
    if (!own.pid) return {};
    sandbox::Init init = sandbox::start_init();
    container.init = init.pid;
    container.namespaces.push_back({CLONE_NEWPID, std::move(init.pid_namespace)});
    return std::move(init.file_system);
}

/// What this process starts from here on is in the container's pid namespace. Threads cannot be started any more.
void enter_pid_namespace(const StartedContainer& container) {
    for (const OwnNamespace& own : container.namespaces)
        if (own.type == CLONE_NEWPID) sys::enter_namespace(own.fd.get(), own.type, "container's pid namespace");
}

void enter_namespaces(StartedContainer& container, const plan::Plan& plan) {
    sandbox::reset_oom_score();
    sandbox::enter_user_namespace(plan.identity);
    enter_own_namespaces(container, plan.unshare);
    container.proc = sys::open_file("/proc", O_PATH | O_DIRECTORY);
    container.user_namespace = sys::open_file("/proc/self/ns/user", O_RDONLY);
    container.mount_namespace = sys::open_file("/proc/self/ns/mnt", O_RDONLY);
    // Only now: the id maps and the files of /proc/self belong to root once the process is private.
    sandbox::become_private();
    // Once, before there are threads and children that would each do it.
    sandbox::limit_bounding_set(plan.capabilities);
}

mount::ServerOptions server_options(const plan::Plan& plan, const plan::Site& site) {
    mount::ServerOptions options;
    options.uid = plan.identity.inside_uid;
    options.gid = plan.identity.inside_gid;
    options.threads = site.server_threads;
    options.cache_bytes = site.cache_bytes;
    options.confine = [] {
        sandbox::drop_capabilities();
        sandbox::forbid_new_privileges();
    };
    return options;
}

/// A mount of a directory of the node, not attached anywhere; empty for none.
Fd clone_directory(const std::string& path) {
    if (path.empty()) return {};
    return sys::open_tree_clone(sys::open_file(path, O_PATH | O_DIRECTORY).get(), true, printable(path, 4096));
}

/// True when the calling process is in the container's user namespace already, as a child of the server is.
bool is_inside(const StartedContainer& container) {
    Fd own = container.proc ? sys::open_at(container.proc.get(), "self/ns/user", O_RDONLY) : sys::open_file("/proc/self/ns/user", O_RDONLY);
    return sys::stat_of(own.get(), "the user namespace").st_ino ==
           sys::stat_of(container.user_namespace.get(), "the container's user namespace").st_ino;
}

void enter_workdir(const std::string& path) {
    Fd root = sys::open_file("/", O_PATH | O_DIRECTORY);
    Fd directory = sys::open_in_root(root.get(), path, O_PATH | O_DIRECTORY);
    if (::fchdir(directory.get()) != 0) throw SysError(cat("entering the working directory ", printable(path, 4096)));
}

/// Reads files of the image before it is mounted.
squash::DataReader reader_of(const ContainerImage& image) {
    std::vector<Fd> files;
    for (const Fd& layer : image.layers) {
        files.emplace_back(::fcntl(layer.get(), F_DUPFD_CLOEXEC, 0));
        if (!files.back()) throw SysError("opening a layer once more");
    }
    return squash::DataReader(std::move(files), image.index.layers(), 1 << 20);
}

std::string content_of(squash::DataReader& reader, const squash::FileData& data, const std::string& path) {
    std::string out(data.size, '\0');
    if (reader.read(data, 0, out.data(), out.size()) != static_cast<long>(out.size()))
        throw SysError(cat("reading ", printable(path, 4096), " of the image"), EIO);
    return out;
}

/// The edits that are done with before anything of the image is mounted.
std::set<size_t> prepare_upper(const ContainerImage& image, const Fd& staging, const std::vector<plan::Edit>& edits, const std::vector<mount::Source>& sources,
                               bool saved) {
    squash::DataReader reader = reader_of(image);
    mount::UpperFacts facts{image.index, sources, saved, [&](const squash::FileData& data, const std::string& path) { return content_of(reader, data, path); }};
    mount::UpperLayer layer = mount::upper_layer(edits, facts);
    mount::write_upper(layer, image.index, mount::staging_directory(staging.get(), "upper").get());
    return std::move(layer.done);
}

/// The container's root over what is mounted at staging/lower, and the directory that takes what is written to it.
mount::Root make_root(StartedContainer& container, const Fd& staging, const ContainerStorage& storage, const Fd& disk) {
    if (disk) sys::move_mount_to(disk.get(), mount::staging_directory(staging.get(), "disk").get(), printable(storage.path, 4096));
    mount::Root root = mount::Root::make_overlay(staging.get(), storage.source, bool(disk), storage.path);
    container.upper = sys::open_at(staging.get(), disk ? "disk/upper" : "upper", O_RDONLY | O_DIRECTORY);
    return root;
}

/// Kills a child and waits for its end; false when it is still there after `patience`.
bool end_child(pid_t child, std::chrono::milliseconds patience) {
    ::kill(child, SIGKILL);
    Fd handle = sys::pidfd_open(child);
    pollfd wait{handle.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(patience.count())) <= 0) return false;
    ::waitpid(child, nullptr, __WALL);
    return true;
}

}  // namespace

StartedContainer start_container(const plan::Plan& plan, ContainerImage image, const plan::Site& site, const ContainerStorage& storage) {
    StartedContainer container;
    container.lease = std::move(image.lease);
    Stopwatch watch(container.phases);
    PlainUmask umask;
    enter_namespaces(container, plan);
    watch.lap("namespaces");
    std::vector<mount::Source> sources = mount::take_sources(plan.edits, start_own_processes(container, plan.unshare));
    Fd directory = clone_directory(image.directory), disk = clone_directory(storage.path);
    sys::make_mounts_private();
    watch.lap("sources");
    Fd staging = mount::make_staging(plan.tmpfs_size);
    Fd lower = mount::staging_directory(staging.get(), "lower");
    std::set<size_t> done;
    // What is kept on disk has these lines from its first run.
    if (!directory && !disk && !image.root) done = prepare_upper(image, staging, plan.edits, sources, storage.saved);
    watch.lap("upper");
    bool own_files = !image.root;
    if (directory) {
        // Its owners stay who they are: the caller's files are the caller's in the container.
        sys::move_mount_to(directory.get(), lower.get(), printable(image.directory, 4096));
    } else if (own_files) {
        mount::start_server(std::move(image.index), image.layers, server_options(plan, site), lower.get());
    }
    watch.lap("server");
    mount::Root root = own_files ? make_root(container, staging, storage, disk) : mount::Root::attach(staging.get(), std::move(image.root));
    watch.lap("overlay");
    // With a limit on what is written to the root, /tmp has its own.
    mount::apply_edits(root, plan.edits, sources, done, plan.tmpfs_size == 0 ? staging.get() : -1);
    mount::prepare_workdir(root, plan.workdir, plan.workdir_required);
    if (!plan.writable) root.make_read_only();
    watch.lap("edits");
    sys::change_root(root.fd());
    container.workdir = plan.workdir;
    const plan::SystemCalls& calls = plan.system_calls;
    container.seccomp_program = sandbox::filter_for({calls.confined, plan.remap_root, calls.allow, calls.deny, sandbox::kernel_has_x32()});
    container.capabilities = plan.capabilities;
    enter_pid_namespace(container);
    sandbox::drop_capabilities(kept_capabilities | plan.capabilities, plan.capabilities);
    sandbox::forbid_new_privileges();
    watch.lap("enter");
    return container;
}

/// What container_root() is about, in a process of its own.
[[noreturn]] void send_root(const StartedContainer& container, int channel) {
    try {
        enter_container(container);
        Fd root = sys::open_tree_clone(sys::open_file("/", O_PATH | O_DIRECTORY).get(), false, "the container's root");
        sys::set_mount_attributes(root.get(), 0, MOUNT_ATTR_RDONLY, false, "the container's root");
        send_message(channel, {}, {root.get()});
    } catch (const Error& error) {
        Message message;
        message.add("error", error.what());
        send_message(channel, message);
    }
    ::_exit(0);
}

Fd container_root(const StartedContainer& container) {
    auto&& [ours, its] = make_channel();
    pid_t child = ::fork();
    if (child < 0) throw SysError("taking the container's root");
    if (child == 0) send_root(container, its.get());
    its.reset();
    // Its message fits into the socket.
    ::waitpid(child, nullptr, 0);
    auto received = receive_message(ours.get());
    if (received && received->descriptors.size() == 1) return std::move(received->descriptors[0]);
    throw Error(received ? received->message.find("error").value_or("taking the container's root: no answer")
                         : "taking the container's root: the process that did it was killed");
}

void enter_container(const StartedContainer& container) {
    if (is_inside(container)) return;
    sys::enter_namespace(container.user_namespace.get(), CLONE_NEWUSER, "container's user namespace");
    sys::enter_namespace(container.mount_namespace.get(), CLONE_NEWNS, "container's mount namespace");
    for (const OwnNamespace& own : container.namespaces) sys::enter_namespace(own.fd.get(), own.type, "a namespace of the container");
}

void become_task(const StartedContainer& container) {
    enter_workdir(container.workdir);
    sandbox::keep_capabilities(container.capabilities);
    sandbox::forbid_new_privileges();
    sandbox::install_filter(container.seccomp_program);
}

void join_container(const StartedContainer& container) {
    enter_container(container);
    become_task(container);
}

void adopt_orphans(StartedContainer& container) { container.adopts = ::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0; }

bool end_container(const StartedContainer& container, std::chrono::milliseconds patience) {
    // With the first process the kernel ends all others of its namespace; nobody else is in the container.
    if (container.init > 0) return end_child(container.init, patience);
    siginfo_t child{};
    if (container.adopts && ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return true;
    // A task that made itself undumpable (ssh-agent does) can be recognised only with this.
    sandbox::raise_capabilities(kept_capabilities);
    bool ended = sandbox::kill_inhabitants(container.proc.get(), container.user_namespace.get(), patience);
    sandbox::drop_capabilities(kept_capabilities, container.capabilities);
    return ended;
}

}  // namespace berth
