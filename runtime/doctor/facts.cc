// The host as `berth doctor` sees it: what can be tried is tried, by the very functions that a start uses.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>

#include "hooks/list.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/pid.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"
#include "runtime/doctor/doctor.hh"
#include "runtime/host/accounts.hh"
#include "runtime/host/facts.hh"
#include "runtime/host/pull_program.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/images/open.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/store/inventory.hh"
#include "runtime/store/shared.hh"
#include "runtime/telemetry/event_log.hh"

namespace berth {

namespace {

namespace fs = std::filesystem;

/// Runs `action` in a child, which may change its namespaces; the line of its error, or nothing.
Attempt attempt(const std::function<void()>& action) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw SysError("making a pipe");
    Fd reading(ends[0]), writing(ends[1]);
    Pid child(::fork());
    if (child.get() < 0) throw SysError("starting a process to try things in");
    if (child.get() == 0) {
        int code = 0;
        try {
            action();
        } catch (const std::exception& problem) {
            code = 1;
            std::string line = problem.what();
            if (::write(writing.get(), line.data(), line.size()) < 0) code = 2;
        }
        ::_exit(code);
    }
    writing.reset();
    std::string line = sys::read_all(reading.get(), 1 << 16, "what a trial says");
    if (child.wait() == 0) return std::nullopt;
    return line.empty() ? "the trial ended without a message" : line;
}

plan::Identity own_identity() {
    plan::Identity out;
    out.host_uid = out.inside_uid = ::geteuid();
    out.host_gid = out.inside_gid = ::getegid();
    return out;
}

/// A staging area in namespaces of its own, as a start makes it.
Fd enter_and_stage() {
    sandbox::enter_user_namespace(own_identity());
    return mount::make_staging(0);
}

void try_user_xattrs(int staging) {
    Fd directory = sys::open_at(staging, "upper", O_RDONLY | O_DIRECTORY);
    if (::fsetxattr(directory.get(), "user.overlay.opaque", "y", 1, 0) != 0)
        throw SysError("setting a user attribute on tmpfs");
}

std::string cgroups() {
    struct statfs at {};
    if (::statfs("/sys/fs/cgroup", &at) != 0) return "none";
    if (static_cast<uint32_t>(at.f_type) == CGROUP2_SUPER_MAGIC) return "v2";
    if (static_cast<uint32_t>(at.f_type) != TMPFS_MAGIC) return "none";
    return ::access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0 ? "hybrid" : "v1";
}

/// f_type of statfs(2), from linux/magic.h. Numbers are of file systems out of the kernel's tree, from their own
/// headers, and of those that linux/magic.h did not always have (fuse, ceph, cifs).
std::string file_system_name(uint32_t magic) {
    static constexpr struct {
        uint32_t magic;
        const char* name;
    } names[] = {{EXT4_SUPER_MAGIC, "ext4"}, {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"},
                 {TMPFS_MAGIC, "tmpfs"},     {NFS_SUPER_MAGIC, "nfs"},   {OVERLAYFS_SUPER_MAGIC, "overlay"},
                 {0x65735546, "fuse"}, {0x2fc12fc1, "zfs"},        {0x0bd00bd0, "lustre"},
                 {0x47504653, "gpfs"},       {0x19830326, "beegfs"},     {0x00c36400, "ceph"},
                 {V9FS_MAGIC, "9p"},         {0xff534d42, "cifs"}, {0xaad7aaea, "panfs"}};
    for (const auto& entry : names)
        if (entry.magic == magic) return entry.name;
    char number[16];
    std::snprintf(number, sizeof number, "0x%x", magic);
    return std::string("a file system of type ") + number;
}

PlaceFacts store_facts(const plan::Site& site) {
    PlaceFacts out;
    try {
        store::Store store = open_store(site, caller_of_this_process());
        out.path = store.path();
        [[maybe_unused]] store::NewFile probe = store.new_file();
        struct statfs at {};
        if (::statfs(out.path.c_str(), &at) != 0)
            throw SysError(cat("asking for the file system of ", printable(out.path, 4096)));
        out.file_system = file_system_name(static_cast<uint32_t>(at.f_type));
        out.free_bytes = static_cast<uint64_t>(at.f_bavail) * static_cast<uint64_t>(at.f_frsize);
        out.free_inodes = at.f_files == 0 ? 1 : at.f_ffree;
        Fd locks = store.directory("locks");
        out.locks = ::flock(locks.get(), LOCK_SH | LOCK_NB) == 0 || errno == EWOULDBLOCK;
        out.network = out.locks && !store.locks_are_certain();
    } catch (const Error& problem) {
        out.problem = problem.what();
    }
    return out;
}

std::string file_system_of(int fd, const std::string& path) {
    struct statfs at {};
    if (::fstatfs(fd, &at) != 0) throw SysError(cat("asking for the file system of ", printable(path, 4096)));
    return file_system_name(static_cast<uint32_t>(at.f_type));
}

SharedStoreFacts shared_store_facts(const std::string& path, std::optional<uid_t> owner) {
    SharedStoreFacts out{path};
    try {
        auto store = store::open_shared(path, owner);
        out.here = store.has_value();
        if (!store) return out;
        out.file_system = file_system_of(store->root(), path);
        out.images = store::take_inventory(*store).images.size();
        out.problem = store::problem_in_shared(*store);
    } catch (const Error& problem) {
        out.problem = problem.what();
    }
    return out;
}

std::vector<SharedStoreFacts> shared_facts(const plan::Site& site) {
    std::vector<SharedStoreFacts> out;
    if (site.store.shared.empty()) return out;
    std::optional<uid_t> owner = uid_of_account(site.store.shared_owner);
    for (const std::string& path : site.store.shared) out.push_back(shared_store_facts(path, owner));
    return out;
}

SharingFacts sharing_facts(const plan::Site& site) {
    SharingFacts out{.enabled = site.share.enabled, .networks = site.share.networks, .addresses = {}, .ports = {}};
    if (!out.enabled) return out;
    out.addresses = local_addresses();
    out.ports = plan::parse_port_range(site.share.ports);
    for (unsigned port = out.ports.first; port != 0 && port <= out.ports.last; ++port)
        out.free_ports += listen_at(static_cast<uint16_t>(port)) ? 1 : 0;
    return out;
}

uint64_t limit_of(__rlimit_resource_t resource) {
    rlimit limit{};
    ::getrlimit(resource, &limit);
    return limit.rlim_max == RLIM_INFINITY ? UINT64_MAX : limit.rlim_max;
}

/// The line of the Error that `action` ends with; empty when it ends with none.
std::string problem_of(const std::function<void()>& action) {
    try {
        action();
        return {};
    } catch (const Error& problem) {
        return problem.what();
    }
}

}  // namespace

DoctorFacts gather_doctor_facts() {
    DoctorFacts out;
    utsname system{};
    ::uname(&system);
    out.kernel = system.release;
    out.user_namespace = attempt([] { sandbox::enter_user_namespace(own_identity()); });
    out.overlay = attempt([] {
        Fd staging = enter_and_stage();
        mount::Root::make_overlay(staging.get());
    });
    out.tmpfs_xattrs = attempt([] { try_user_xattrs(enter_and_stage().get()); });
    out.fuse = attempt([] {
        Fd staging = enter_and_stage();
        mount::try_fuse(::geteuid(), ::getegid(), mount::staging_directory(staging.get(), "lower").get());
    });
    out.settings = sandbox::namespace_settings();
    out.cgroups = cgroups();
    out.memlock = limit_of(RLIMIT_MEMLOCK);
    out.open_files = limit_of(RLIMIT_NOFILE);
    out.pull_program_problem = problem_of([&] { out.pull_program = pull_program(); });
    plan::Site site;
    out.site_file_problem = problem_of([&] {
        site = load_site();
        plan::apply_environment(site, environment_of_this_process());
    });
    out.asks_for_squashfuse = site.mount.engine == plan::MountEngine::squashfuse;
    out.counters_to_come = counters_to_come(site, caller_of_this_process());
    if (!out.counters_to_come.empty()) site.events.counters.clear();
    out.event_troubles = event_troubles(site, caller_of_this_process());
    out.store = store_facts(site);
    out.shared_stores = shared_facts(site);
    out.sharing = sharing_facts(site);
    out.slurm = gather_slurm_facts();
    out.devices = hooks::device_statuses(hooks::Host(), site, environment_of_this_process());
    return out;
}

}  // namespace berth
