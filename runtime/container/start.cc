#include "runtime/container/start.hh"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <initializer_list>
#include <memory>
#include <optional>
#include <utility>

#include "hooks/rootfs.hh"
#include "runtime/base/channel.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/descriptors.hh"
#include "runtime/base/error.hh"
#include "runtime/base/keyring.hh"
#include "runtime/base/mounts.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/new_calls.hh"
#include "runtime/base/pid.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/container/plan_report.hh"
#include "runtime/container/serve.hh"
#include "runtime/mount/rootfs/edits.hh"
#include "runtime/mount/rootfs/others.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/init.hh"
#include "runtime/sandbox/seccomp.hh"
#include "runtime/sandbox/user_namespace.hh"

namespace berth {

namespace {

/// Records how long each part took.
class Stopwatch {
  public:
    explicit Stopwatch(std::vector<plan::PhaseTime>& phases) : phases_(phases) {}
    void lap(const char* name) {
        auto now = std::chrono::steady_clock::now();
        phases_.push_back(
            {name, static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now - last_).count())});
        last_ = now;
        debug::log("start", name, " took ", phases_.back().microseconds, " us");
    }

  private:
    std::vector<plan::PhaseTime>& phases_;
    std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Whether programs of the image may know no numbers over 2^32.
bool has_32_bit_loader(const ContainerImage& image) {
    std::unique_ptr<hooks::Rootfs> rootfs = hooks::rootfs_of(image);
    return std::ranges::any_of(
        std::initializer_list<const char*>{"/lib/ld-linux.so.2", "/lib/ld-musl-i386.so.1", "/lib/ld-linux-armhf.so.3",
                                           "/lib/ld-musl-armhf.so.1"},
        [&](const char* path) { return rootfs->exists(path); });
}

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
void enter_own_namespaces(StartedContainer& container, const plan::OwnNamespaces& own, const std::string& hostname) {
    for (const plan::NamespaceKind& kind : plan::namespace_kinds) {
        // That of processes is not for this one, which serves them, but for those that it starts.
        if (!(own.*kind.wanted) || kind.type == CLONE_NEWPID) continue;
        if (int number = sys::unshare(kind.type); number != 0)
            throw Error(cat("giving the container a ", kind.name, " namespace of its own: ", reason(number),
                            number == ENOSPC ? cat("; raise user.max_", kind.word, "_namespaces (sysctl)") : ""));
        container.namespaces.push_back({kind.type, sys::open_file(cat("/proc/self/ns/", kind.word), O_RDONLY)});
    }
    if (own.net) sys::raise_loopback();
    if (own.uts && !hostname.empty() && ::sethostname(hostname.data(), hostname.size()) != 0)
        throw SysError(cat("giving the container the host name ", printable(hostname)));
}

/// Makes the pid namespace, when one is wanted; the result is its /proc. Before threads are started, whose memory the
/// first process would share.
Fd start_own_processes(StartedContainer& container, const plan::OwnNamespaces& own) {
    if (!own.pid) return {};
    sandbox::Init init = sandbox::start_init();
    container.init = std::move(init.process);
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
    enter_own_namespaces(container, plan.unshare, plan.hostname);
    container.proc = sys::open_file("/proc", O_PATH | O_DIRECTORY);
    container.user_namespace = sys::open_file("/proc/self/ns/user", O_RDONLY);
    container.mount_namespace = sys::open_file("/proc/self/ns/mnt", O_RDONLY);
    // Only now: the id maps and the files of /proc/self belong to root once the process is private.
    sandbox::become_private();
    // Once, before there are threads and children that would each do it.
    sandbox::limit_bounding_set(plan.capabilities);
}

/// A mount of a directory of the node, not attached anywhere; empty for none. With an identity (device and inode) it is
/// that directory.
Fd clone_directory(const std::string& path, const std::pair<uint64_t, uint64_t>& identity = {}, int flags = 0) {
    if (path.empty()) return {};
    Fd directory = sys::open_file(path, O_PATH | O_DIRECTORY | flags);
    struct stat st = sys::stat_of(directory.get(), printable(path, 4096));
    if (identity.second != 0 && identity != std::pair<uint64_t, uint64_t>(st.st_dev, st.st_ino))
        throw Error(cat("opening the image ", printable(path, 4096),
                        ": the path leads to another directory than a moment ago; leave it alone during the start"));
    return sys::open_tree_clone(directory.get(), true, printable(path, 4096));
}

/// True when the calling process is in the container's user namespace already, as a child of the server is.
bool is_inside(const StartedContainer& container) {
    Fd own = container.proc ? sys::open_at(container.proc.get(), "self/ns/user", O_RDONLY)
                            : sys::open_file("/proc/self/ns/user", O_RDONLY);
    return sys::stat_of(own.get(), "the user namespace").st_ino ==
           sys::stat_of(container.user_namespace.get(), "the container's user namespace").st_ino;
}

void enter_workdir(const std::string& path) {
    Fd root = sys::open_file("/", O_PATH | O_DIRECTORY);
    Fd directory = sys::open_in_root(root.get(), path, O_PATH | O_DIRECTORY);
    if (::fchdir(directory.get()) != 0) throw SysError(cat("entering the working directory ", printable(path, 4096)));
}

/// Files of the image as files of the node: a mount that is attached nowhere; empty when it cannot be made. Programs
/// for 32 bits may not know the numbers of its inodes.
Fd clone_hot(const ContainerImage& image, bool small_inode_numbers) try {
    if (!image.hot.folder || small_inode_numbers) return {};
    return clone_directory(image.hot.folder->root, image.hot.folder->identity, O_NOFOLLOW);
} catch (const Error&) {
    return {};
}

/// Over staging/lower and, where there is one, `hot`. Without it where the kernel refuses that.
mount::Root make_overlay(const Fd& staging, mount::OverlayOptions options, const Fd& mount, const HotImage& hot) {
    if (!mount) return mount::Root::make_overlay(staging.get(), options);
    options.layers.emplace_back("hot");
    try {
        if (::mkdirat(staging.get(), "hot", 0755) != 0) throw SysError("creating the staging directory hot");
        sys::move_mount_to(mount.get(), mount::staging_directory(staging.get(), "hot").get(), "unpacked files");
        return mount::Root::make_overlay(staging.get(), options);
    } catch (const Error& error) {
        store::refuse_hot(hot.hot.get(), hot.order.key.boot, cat("unpacked files cannot be used: ", error.what()));
    }
    options.layers.pop_back();
    return mount::Root::make_overlay(staging.get(), options);
}

constexpr size_t layer_limit = 64;  // by the kernel's limit of 255 bytes for their names

/// Attaches the layers of the plan in the staging area; their names there, the topmost first, which is the last one.
std::vector<std::string> attach_layers(const plan::Plan& plan, const std::vector<mount::Source>& sources, int staging) {
    std::vector<std::string> out;
    for (size_t i = 0; i < plan.edits.size(); ++i) {
        const auto* mount = std::get_if<plan::Mount>(&plan.edits[i].action);
        if (!mount || !mount->layer) continue;
        auto fail = [&](const std::string& why) {
            throw Error(cat(mount::described(*mount, plan.edits[i].origin), ": ", why));
        };
        if (!sources[i].directory) fail("it is no directory");
        if (out.size() == layer_limit) fail(cat("more than ", layer_limit, " do not go over one image"));
        std::string name = cat("l", out.size());
        if (::mkdirat(staging, name.c_str(), 0755) != 0) throw SysError("creating the staging directory of a layer");
        sys::move_mount_to(sources[i].tree.get(), mount::staging_directory(staging, name).get(), "it");
        out.insert(out.begin(), name);
    }
    return out;
}

/// The container's root over what is mounted at staging/lower, and the directory that takes what is written to it.
mount::Root make_root(StartedContainer& container, const Fd& staging, const ContainerStorage& storage, const Fd& disk,
                      mount::OverlayOptions options, const Fd& mount, const HotImage& hot) {
    if (disk)
        sys::move_mount_to(disk.get(), mount::staging_directory(staging.get(), "disk").get(),
                           printable(storage.path, 4096));
    options.source = storage.source;
    options.on_disk = bool(disk);
    options.disk_path = storage.path;
    options.setting = storage.setting;
    mount::Root root = make_overlay(staging, std::move(options), mount, hot);
    container.upper = sys::open_at(staging.get(), disk ? "disk/upper" : "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return root;
}

/// The directory that the overlay will write to. Where it is none of a container's making, make_root() says so.
Fd upper_of(const Fd& staging, const Fd& disk) {
    return disk ? sys::find_beneath(disk.get(), "upper", O_PATH | O_DIRECTORY)
                : mount::staging_directory(staging.get(), "upper");
}

/// Does the edits. Inside there is no name for the disk that may be full.
void edit_root(mount::Root& root, const plan::Plan& plan, std::vector<mount::Source>& sources,
               const mount::EditMeans& means, const ContainerStorage& storage) {
    try {
        mount::apply_edits(root, plan.edits, sources, means);
        mount::prepare_workdir(root, plan.workdir, plan.workdir_required);
    } catch (const SysError& error) {
        bool full = error.number() == ENOSPC || error.number() == EDQUOT;
        if (storage.path.empty() || !full) throw;
        throw Error(cat(error.what(), "; what the container writes is kept in ", printable(storage.path, 4096), " (",
                        storage.setting, "): make room there"));
    }
}

std::string filter_of(const plan::Plan& plan) {
    const plan::SystemCalls& calls = plan.system_calls;
    sandbox::FilterRules rules{calls.confined, plan.remap_root, calls.allow, calls.deny, sandbox::kernel_has_x32()};
    if (calls.fake_chown) rules.own_ids = {plan.identity.inside_uid, plan.identity.inside_gid};
    return sandbox::filter_for(rules);
}

/// Makes `root` the root, and gives up what only the making of the container needed.
void close_up(StartedContainer& container, const plan::Plan& plan, const mount::Root& root) {
    sys::change_root(root.fd());
    container.workdir = plan.workdir;
    container.capabilities = plan.capabilities;
    enter_pid_namespace(container);
    sandbox::drop_capabilities(kept_capabilities | plan.capabilities, plan.capabilities);
    sandbox::forbid_new_privileges();
}

}  // namespace

StartedContainer start_container(const plan::Plan& plan, ContainerImage image, const plan::Site& site,
                                 const ContainerStorage& storage) {
    log_plan(plan);
    StartedContainer container;
    container.lease = std::move(image.lease);
    Stopwatch watch(container.phases);
    PlainUmask umask;
    SquashfsMounts squashfs = open_squashfs_mounts(plan, site);
    if (!squashfs.files.empty()) watch.lap("squashfs");
    enter_namespaces(container, plan);
    watch.lap("namespaces");
    std::vector<mount::Source> sources =
        mount::take_sources(plan.edits, plan.sources, start_own_processes(container, plan.unshare));
    for (const auto& [edit, file] : squashfs.file_of) sources[edit].directory = true;
    Fd shared = std::move(image.root), directory = clone_directory(image.directory, image.directory_identity),
       disk = clone_directory(storage.path, {}, O_NOFOLLOW);
    if (storage.in_place) shared = std::exchange(directory, Fd());
    // Before the staging area hides a directory of the node.
    bool has_old_programs = !shared && has_32_bit_loader(image);
    Fd hot_mount = clone_hot(image, has_old_programs);
    HotImage hot = std::move(image.hot);
    sys::make_mounts_private();
    watch.lap("sources");
    Fd staging = mount::make_staging(plan.tmpfs_size);
    container.seccomp_program = filter_of(plan);
    bool served = !directory && !shared;
    auto is_layer = [](const plan::Edit& edit) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        return mount && mount->layer;
    };
    bool has_layers = std::ranges::any_of(plan.edits, is_layer);
    // With a limit on what is written to the root, /tmp has its own.
    mount::EditMeans means{{}, plan.tmpfs_size == 0 ? staging.get() : -1};
    // What is kept on disk has these lines from its first run. What layers show is not in the image's index.
    if (served && !disk && !has_layers)
        means.done = prepare_upper(image, mount::staging_directory(staging.get(), "upper").get(), plan.edits, sources,
                                   site.mount.modes, storage.saved);
    if (directory)
        if (Fd upper = upper_of(staging, disk))
            mount::take_over_directories(directory.get(), upper.get(), mount::changes_of(plan));
    watch.lap("upper");
    // Its owners stay who they are: the caller's files are the caller's in the container.
    if (directory)
        sys::move_mount_to(directory.get(), mount::staging_directory(staging.get(), "lower").get(),
                           "the image's directory");
    std::vector<mount::IdleProcess> sweeps = start_data_sweeps(squashfs, plan, site);
    if (served) {
        container.keep_reads = std::move(image.reads.keep);
        container.prefetcher = serve_image(std::move(image), plan, site, staging.get(), hot);
    }
    serve_squashfs(std::move(squashfs), sweeps, plan, site, has_old_programs, staging.get(), sources);
    for (mount::IdleProcess& sweep : sweeps) container.data_sweeps.push_back(std::move(sweep.process));
    watch.lap("server");
    mount::OverlayOptions options;
    options.small_inode_numbers = has_old_programs;
    options.layers = attach_layers(plan, sources, staging.get());
    mount::Root root = shared ? mount::Root::attach(staging.get(), std::move(shared))
                              : make_root(container, staging, storage, disk, std::move(options), hot_mount, hot);
    if (hot.folder) container.hot = std::move(hot.folder->lease);
    watch.lap("overlay");
    edit_root(root, plan, sources, means, storage);
    if (!plan.writable) root.make_read_only();
    watch.lap("edits");
    close_up(container, plan, root);
    watch.lap("enter");
    return container;
}

/// What container_root() is about, in a process of its own.
[[noreturn]] void send_root(const StartedContainer& container, int channel) {
    try {
        std::vector<int> kept = descriptors_to_enter(container);
        kept.push_back(channel);
        sys::prepare_to_join(std::move(kept));
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
    Pid child(::fork());
    if (child.get() < 0) throw SysError("taking the container's root");
    if (child.get() == 0) send_root(container, its.get());
    its.reset();
    // Its message fits into the socket.
    child.wait();
    auto received = receive_message(ours.get());
    if (received && received->descriptors.size() == 1) return std::move(received->descriptors[0]);
    throw Error(received ? received->message.find("error").value_or("taking the container's root: no answer")
                         : "taking the container's root: the process that did it was killed");
}

std::vector<int> descriptors_to_enter(const StartedContainer& container) {
    std::vector<int> out{container.user_namespace.get(), container.mount_namespace.get(), container.proc.get()};
    for (const OwnNamespace& own : container.namespaces) out.push_back(own.fd.get());
    return out;
}

void enter_container(const StartedContainer& container) {
    if (is_inside(container)) return;
    sys::enter_user_namespace(container.user_namespace.get());
    sys::enter_namespace(container.mount_namespace.get(), CLONE_NEWNS, "container's mount namespace");
    for (const OwnNamespace& own : container.namespaces)
        sys::enter_namespace(own.fd.get(), own.type, "a namespace of the container");
}

namespace {

void enter_some_workdir(const StartedContainer& container) {
    std::vector<std::string> paths{container.workdir};
    paths.insert(paths.end(), container.other_workdirs.begin(), container.other_workdirs.end());
    for (size_t i = 0; i < paths.size(); ++i) try {
            return enter_workdir(paths[i]);
        } catch (const SysError&) {
            if (i + 1 == paths.size()) throw;
        }
}

}  // namespace

void become_task(const StartedContainer& container) {
    enter_some_workdir(container);
    sandbox::keep_capabilities(container.capabilities);
    sandbox::forbid_new_privileges();
    sandbox::install_filter(container.seccomp_program);
    sys::join_own_session_keyring();
}

void join_container(const StartedContainer& container) {
    enter_container(container);
    become_task(container);
}

}  // namespace berth
