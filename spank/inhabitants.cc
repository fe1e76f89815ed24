#include "spank/inhabitants.hh"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

bool has_ended(int pidfd) {
    pollfd entry{pidfd, POLLIN, 0};
    return poll(&entry, 1, 0) > 0;
}

/// Kills the process if it lives in the namespace. The second look is at the process that the pidfd holds, so that no
/// other one can be hit.
bool kill_if_inside(pid_t pid, const NamespaceId& user_namespace) {
    if (user_namespace_of(pid) != user_namespace) return false;
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process || user_namespace_of(pid) != user_namespace || has_ended(process.get())) return false;
    return syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0) == 0;
}

/// One walk through /proc; true when a process had to be killed.
bool kill_once(const NamespaceId& user_namespace) {
    DIR* proc = opendir("/proc");
    if (proc == nullptr) return false;
    bool found = false;
    while (const dirent* entry = readdir(proc)) {
        uint64_t pid = 0;
        if (parse_number(entry->d_name, 1 << 30, pid) && kill_if_inside(static_cast<pid_t>(pid), user_namespace))
            found = true;
    }
    closedir(proc);
    return found;
}

}  // namespace

std::optional<NamespaceId> user_namespace_of(pid_t pid) {
    struct stat info;
    if (stat(cat("/proc/", pid, "/ns/user").c_str(), &info) != 0) return std::nullopt;
    return NamespaceId{info.st_dev, info.st_ino};
}

void kill_inhabitants(const NamespaceId& user_namespace) {
    for (int round = 0; round < 50 && kill_once(user_namespace); ++round) usleep(20'000);
}

}  // namespace berth::spank
