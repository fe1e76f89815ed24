#include "spank/inhabitants.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/listing.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"

namespace berth::spank {

namespace {

bool has_ended(int pidfd) {
    pollfd entry{pidfd, POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
}

/// Kills the process if it is one of those. The second look is at the process that the pidfd holds, so that no other
/// one can be hit.
template <typename Chosen>
bool kill_if(pid_t pid, Chosen chosen) {
    if (!chosen(pid)) return false;
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process || !chosen(pid) || has_ended(process.get())) return false;
    return syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

/// One walk through /proc; true when a process that `chosen` takes had to be killed.
template <typename Chosen>
bool kill_once(Chosen chosen) {
    sys::Listing proc = sys::open_listing("/proc");
    if (!proc) return false;
    bool found = false;
    while (const dirent* entry = readdir(proc.get())) {
        uint64_t number = 0;
        if (!parse_number(entry->d_name, 1 << 30, number)) continue;
        if (kill_if(static_cast<pid_t>(number), chosen)) found = true;
    }
    return found;
}

/// Again and again, since what is killed may have forked; for about a second.
template <typename Chosen>
void kill_all(Chosen chosen) {
    for (int round = 0; round < 50 && kill_once(chosen); ++round) usleep(20'000);
}

bool is_in_leaf_now(pid_t pid) try {
    return is_in_leaf(sys::read_file(cat("/proc/", pid, "/cgroup"), proc_file_limit));
} catch (const Error&) {
    return false;
}

std::optional<NamespaceId> id_of(const Fd& fd) {
    struct stat info {};
    if (!fd || fstat(fd.get(), &info) != 0) return std::nullopt;
    return NamespaceId{info.st_dev, info.st_ino};
}

/// The kernel's link to an object of its own, which nothing that a user makes can stand for.
Fd open_user_namespace(pid_t pid) {
    return Fd(open(cat("/proc/", pid, "/ns/user").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

/// In the namespace, or in one made in it.
bool lives_in(pid_t pid, const NamespaceId& user_namespace) {
    for (Fd at = open_user_namespace(pid); at; at = sys::parent_user_namespace(at.get()))
        if (id_of(at) == user_namespace) return true;
    return false;
}

std::string_view name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Also when the program was replaced since the process began. The kernel keeps the path of its file (proc(5)):
/// "/usr/bin/berth (deleted)", "/usr/bin/berth.dpkg-tmp (deleted)", or in another folder where the site changes a link.
bool executes(pid_t pid, const struct stat& program, const std::string& path) {
    std::string link = cat("/proc/", pid, "/exe");
    struct stat its;
    if (stat(link.c_str(), &its) == 0 && its.st_ino == program.st_ino && its.st_dev == program.st_dev) return true;
    char text[4096];
    ssize_t size = readlink(link.c_str(), text, sizeof text);
    return size > 0 && name_in({text, static_cast<size_t>(size)}).starts_with(name_in(path));
}

}  // namespace

std::optional<NamespaceId> user_namespace_of(pid_t pid) {
    struct stat info;
    if (stat(cat("/proc/", pid, "/ns/user").c_str(), &info) != 0) return std::nullopt;
    return NamespaceId{info.st_dev, info.st_ino};
}

std::optional<NamespaceId> container_of(pid_t pid) {
    std::optional<NamespaceId> own = user_namespace_of(getpid()), last;
    for (Fd at = open_user_namespace(pid); at; at = sys::parent_user_namespace(at.get())) {
        std::optional<NamespaceId> its = id_of(at);
        if (its == own) return last;
        last = its;
    }
    return std::nullopt;
}

void kill_inhabitants(const NamespaceId& user_namespace) {
    kill_all([&](pid_t pid) { return lives_in(pid, user_namespace); });
}

void kill_group(pid_t group, pid_t session) {
    kill_all([&](pid_t pid) { return getpgid(pid) == group && getsid(pid) == session; });
}

void kill_server_of(pid_t task, const std::string& program) {
    std::optional<NamespaceId> inside = container_of(task);
    struct stat file {};
    if (!inside || stat(program.c_str(), &file) != 0) return;
    kill_once([&](pid_t pid) {
        return user_namespace_of(pid) == *inside && (is_in_leaf_now(pid) || executes(pid, file, program));
    });
}

}  // namespace berth::spank
