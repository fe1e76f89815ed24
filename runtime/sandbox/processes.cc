#include "runtime/sandbox/processes.hh"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/listing.hh"
#include "runtime/base/mountinfo.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sandbox {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t mountinfo_limit = 16 << 20;

std::vector<pid_t> all_processes(int proc) {
    sys::Listing directory = sys::listing_of(sys::open_at(proc, ".", O_RDONLY | O_DIRECTORY));
    if (!directory) throw SysError("listing /proc");
    std::vector<pid_t> pids;
    while (const dirent* entry = readdir(directory.get())) {
        uint64_t pid = 0;
        if (parse_number(entry->d_name, INT32_MAX, pid) && static_cast<pid_t>(pid) != ::getpid())
            pids.push_back(static_cast<pid_t>(pid));
    }
    return pids;
}

/// True when the process is in the user namespace with inode number `inode`, or in one made below it.
bool lives_in(int proc, pid_t pid, ino_t inode) {
    Fd at(::openat(proc, cat(pid, "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    while (at) {
        struct stat st {};
        if (::fstat(at.get(), &st) != 0) return false;
        if (st.st_ino == inode) return true;
        at = sys::parent_user_namespace(at.get());
    }
    return false;
}

bool has_ended(int pidfd) {
    pollfd wait{pidfd, POLLIN, 0};
    return ::poll(&wait, 1, 0) > 0;
}

/// True when the root directory of the process is a mount of `source` (proc(5), mountinfo).
bool has_root_of(int proc, pid_t pid, const std::string& source) {
    Fd file(::openat(proc, cat(pid, "/mountinfo").c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return false;
    std::string text;
    try {
        text = sys::read_all(file.get(), mountinfo_limit, "mountinfo");
    } catch (const Error&) {
        return false;  // it has ended
    }
    std::vector<MountLine> lines = parse_mountinfo(text);
    return std::any_of(lines.begin(), lines.end(), [&](const MountLine& line) {
        return line.place == "/" && line.type == "overlay" && line.source == source;
    });
}

using Belongs = std::function<bool(pid_t)>;

/// Kills what is there now; the result are the handles of those that were alive.
std::vector<Fd> kill_once(int proc, const Belongs& belongs) {
    std::vector<Fd> killed;
    for (pid_t pid : all_processes(proc)) {
        // The handle first: what is examined after it is the process of the handle, or it has ended.
        Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (!handle || !belongs(pid) || has_ended(handle.get())) continue;
        if (syscall(SYS_pidfd_send_signal, handle.get(), SIGKILL, nullptr, 0) == 0) killed.push_back(std::move(handle));
    }
    return killed;
}

int milliseconds_until(Clock::time_point end) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    return left > 0 ? static_cast<int>(left) : 0;
}

/// Again and again, since what is killed may have forked.
bool kill_all(int proc, const Belongs& belongs, std::chrono::milliseconds timeout) {
    Clock::time_point end = Clock::now() + timeout;
    for (;;) {
        std::vector<Fd> killed = kill_once(proc, belongs);
        if (killed.empty()) return true;
        for (const Fd& handle : killed) {
            pollfd wait{handle.get(), POLLIN, 0};
            ::poll(&wait, 1, milliseconds_until(end));
        }
        if (Clock::now() >= end) return kill_once(proc, belongs).empty();
    }
}

}  // namespace

bool kill_inhabitants(int proc, int user_namespace, std::chrono::milliseconds timeout,
                      const std::vector<pid_t>& spared) {
    ino_t inode = sys::stat_of(user_namespace, "the user namespace").st_ino;
    auto belongs = [&](pid_t pid) {
        return std::find(spared.begin(), spared.end(), pid) == spared.end() && lives_in(proc, pid, inode);
    };
    return kill_all(proc, belongs, timeout);
}

bool kill_users_of_root(int proc, const std::string& source, std::chrono::milliseconds timeout) {
    return kill_all(proc, [&](pid_t pid) { return has_root_of(proc, pid, source); }, timeout);
}

std::vector<pid_t> inhabitants(int proc, ino_t user_namespace) {
    std::vector<pid_t> out;
    for (pid_t pid : all_processes(proc))
        if (lives_in(proc, pid, user_namespace)) out.push_back(pid);
    return out;
}

}  // namespace berth::sandbox
