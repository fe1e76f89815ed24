#include "runtime/plan/system_edits.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

const std::vector<std::string> device_nodes = {"/dev/null",   "/dev/zero",    "/dev/full",
                                               "/dev/random", "/dev/urandom", "/dev/tty"};
const std::vector<std::string> host_files = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/machine-id",
                                             "/etc/localtime"};
constexpr std::string_view zones = "/usr/share/zoneinfo/";

// The lists of moby (oci/defaults.go), but for what performance tools read: interrupts and thermal_throttle.
const std::vector<std::string> hidden = {"/proc/acpi",
                                         "/proc/asound",
                                         "/proc/kcore",
                                         "/proc/keys",
                                         "/proc/latency_stats",
                                         "/proc/sched_debug",
                                         "/proc/scsi",
                                         "/proc/timer_list",
                                         "/proc/timer_stats",
                                         "/sys/firmware",
                                         "/sys/devices/virtual/powercap"};
const std::vector<std::string> protected_paths = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                                  "/proc/sysrq-trigger"};

// As docker's: room for links and sockets, none to store things in.
constexpr uint64_t dev_size = 64 << 20;
constexpr size_t volume_limit = 100;

// Only the second version of cgroups has one hierarchy, which can be mounted anew.
constexpr const char* cgroup_file = "/sys/fs/cgroup/cgroup.controllers";

/// Who wants a namespace of the container's own.
const char* origin_of(bool asked, const char* option) { return asked ? option : "defaults.unshare"; }

void add_kernel_file_systems(EditList& edits, const SystemNeeds& needs) {
    const HostFacts& host = needs.host;
    const OwnNamespaces& own = needs.own;
    if (own.pid)
        edits.fresh(Mount::Kind::proc, "proc", "/proc", origin_of(needs.asked.pid, "option --pid"),
                    "the container's own processes");
    else
        edits.bind("/proc", "/proc", by_berth, "the host's processes: berth keeps the host's pid namespace").create =
            Mount::Create::directory;
    Mount& sys = edits.bind("/sys", "/sys", by_berth, "devices and topology, read-only");
    sys.create = Mount::Create::directory;
    sys.read_only = true;
    if (own.cgroup && host.has(cgroup_file))
        edits.fresh(Mount::Kind::cgroup, "cgroup2", "/sys/fs/cgroup", "option --cgroup", "the container's own cgroups")
            .read_only = true;
}

/// Terminals are the container's own: one that is made by /dev/ptmx needs the file system of terminals beside it, and
/// the node's would show those of all users.
void add_terminals(EditList& edits, const std::string& callers) {
    Mount& terminals =
        edits.fresh(Mount::Kind::devpts, "devpts", "/dev/pts", by_berth, "terminals of the container's own");
    terminals.device = true;
    edits.add(Symlink{"/dev/ptmx", "pts/ptmx"}, by_berth, "standard link");
    if (callers.empty()) return;
    // ttyname(3) looks into /dev for it.
    Mount& mount = edits.bind(callers, "/dev/console", by_berth, "the caller's terminal");
    mount.device = true;
    mount.optional = true;
    mount.create = Mount::Create::file;
}

/// Slurm opens the terminal of srun --pty on the node, only once the container has been started.
void add_node_terminals(EditList& edits) {
    Mount& terminals = edits.bind("/dev/pts", "/dev/pts", Origin::of_site("slurm"), "terminals of srun --pty");
    terminals.device = true;
    terminals.optional = true;
    terminals.create = Mount::Create::directory;
}

/// Shared memory of the node; message queues belong to the node's ipc namespace.
void add_shared_memory(EditList& edits, const SystemNeeds& needs) {
    bool own_ipc = needs.own.ipc;
    if (own_ipc)
        edits.tmpfs("/dev/shm", 01777, origin_of(needs.asked.ipc, "option --ipc"),
                    "shared memory of the container's own");
    if (!needs.site.devices.restricted) return;
    for (const char* shared : {"/dev/shm", "/dev/mqueue", "/dev/hugepages"})
        if (needs.host.has(shared) && (!own_ipc || shared == std::string_view("/dev/hugepages")))
            edits.bind(shared, shared, by_berth, "shared memory of the node").create = Mount::Create::directory;
}

void add_device(EditList& edits, const std::string& node, const char* reason) {
    Mount& mount = edits.bind(node, node, by_berth, reason);
    mount.device = true;
    mount.create = Mount::Create::file;
}

void add_devices(EditList& edits, const SystemNeeds& needs) {
    const HostFacts& host = needs.host;
    Mount& dev = edits.tmpfs("/dev", 0755, by_berth, "a private /dev: only named devices");
    dev.size = dev_size;
    // What makes containers in the container mounts it once more without nodev (buildah), which nobody may take from a
    // mount there. A device file in it works all the same for nobody: no file system of a user namespace has any.
    dev.device = needs.nested;
    for (const std::string& node : device_nodes)
        if (host.has(node)) add_device(edits, node, "standard device");
    if (host.fuse && needs.site.devices.fuse)
        add_device(edits, "/dev/fuse", "allowed by devices.fuse");
    else if (host.fuse && needs.nested)
        add_device(edits, "/dev/fuse", "file systems of programs in the container's own namespaces");
    add_shared_memory(edits, needs);
    edits.add(Symlink{"/dev/fd", "/proc/self/fd"}, by_berth, "standard link");
    edits.add(Symlink{"/dev/stdin", "/proc/self/fd/0"}, by_berth, "standard link");
    edits.add(Symlink{"/dev/stdout", "/proc/self/fd/1"}, by_berth, "standard link");
    edits.add(Symlink{"/dev/stderr", "/proc/self/fd/2"}, by_berth, "standard link");
    needs.node_terminals ? add_node_terminals(edits) : add_terminals(edits, needs.terminal);
}

/// With its terminals, links and shared memory.
void add_node_devices(EditList& edits, const SystemNeeds& needs) {
    Mount& mount = edits.bind("/dev", "/dev", by_berth, "the node's /dev (devices.restrict)");
    mount.keeps_devices = true;
    mount.create = Mount::Create::directory;
    add_shared_memory(edits, needs);
}

bool is_in_proc(const std::string& path) { return path.starts_with("/proc/"); }

/// The kernel mounts another /proc in a user namespace only where the present one is seen whole (fs/namespace.c,
/// mount_too_revealing). What the caller, who is root, could change there stays covered all the same, and with it the
/// rest.
bool shows_whole_proc(const SystemNeeds& needs) {
    return needs.nested && std::ranges::none_of(needs.host.writable, is_in_proc);
}

/// A user's own rights forbid most of it already: what he could not do anyway needs no mount.
void add_masks(EditList& edits, const SystemNeeds& needs) {
    for (const std::string& path : needs.host.readable) {
        if (is_in_proc(path) && shows_whole_proc(needs)) continue;
        Mount& mount = edits.tmpfs(path, 0555, by_berth, "of no use to a job");
        mount.kind = Mount::Kind::mask;
        mount.source = "mask";
        mount.read_only = mount.optional = true;
        mount.create = Mount::Create::none;
    }
    for (const std::string& path : needs.host.writable) {
        Mount& mount = edits.bind(path, path, by_berth, "settings of the node");
        mount.read_only = mount.optional = true;
        mount.create = Mount::Create::none;
    }
}

void add_volumes(EditList& edits, const ImageConfig& image, uint64_t size) {
    if (image.volumes.size() > volume_limit)
        throw Error(cat("the image has ", image.volumes.size(), " volumes, more than the limit of ", volume_limit,
                        "; set mount.volumes = \"none\""));
    for (const std::string& path : image.volumes) {
        std::string target = normalised(path.starts_with('/') ? path : "/" + path);
        if (std::string why = forbidden_target(target); !why.empty())
            throw Error(
                cat("the image's volume ", printable(target, 4096), ": ", why, "; set mount.volumes = \"none\""));
        edits.tmpfs(target, 0755, "image", "a volume of the image, by mount.volumes").size = size;
    }
}

/// The link itself, as Enroot does: a mount would lie on the file of the zone that the image's own link names, which
/// would then show another time, and which no package could replace.
void add_time_zone(EditList& edits, const HostFacts& host) {
    std::string path = cat(zones, host.zone);
    edits.add(Directory{path.substr(0, path.rfind('/')), 0755}, by_berth, "the folder of the node's time zone");
    edits.add(DropIn{path, host.zone_file}, by_berth, "the node's time zone, for an image without zones");
    edits.add(Symlink{"/etc/localtime", path, true}, by_berth, "the node's time zone");
}

void add_host_files(EditList& edits, const HostFacts& host) {
    if (!host.zone.empty()) add_time_zone(edits, host);
    for (const std::string& file : host_files)
        if (host.has(file) && (file != "/etc/localtime" || host.zone.empty())) {
            Mount& mount = edits.bind(file, file, by_berth, "name resolution, identity and time zone of the node");
            mount.read_only = true;
            mount.optional = true;
            mount.create = Mount::Create::file;
        }
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

void add_system(EditList& edits, const SystemNeeds& needs) {
    const Site& site = needs.site;
    add_kernel_file_systems(edits, needs);
    needs.site.devices.restricted ? add_devices(edits, needs) : add_node_devices(edits, needs);
    if (site.security.mask) add_masks(edits, needs);
    edits.tmpfs("/run", 0755, by_berth, "a fresh /run").size = site.limits.tmpfs_size;
    edits.tmpfs("/tmp", 01777, by_berth, "a fresh /tmp").size = site.limits.tmpfs_size;
    if (site.mount.volumes == plan::Volumes::tmpfs) add_volumes(edits, needs.image, site.limits.tmpfs_size);
    add_host_files(edits, needs.host);
}

}  // namespace berth::plan
