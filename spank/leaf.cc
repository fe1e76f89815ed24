#include "spank/leaf.hh"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/owned_directory.hh"

namespace berth::spank {

namespace {

/// Of a file with a few numbers.
constexpr size_t file_limit = 4096;
/// The kernel has numbers for four million processes (PID_MAX_LIMIT), of seven digits.
constexpr size_t processes_limit = 64 << 20;
constexpr int freeze_ms = 200;
constexpr int step_ms = 10;

/// Only what the kernel shows as cgroups is written to.
Fd open_parent(const LeafPlace& place) {
    Fd mount = sys::open_file(place.mount, O_RDONLY | O_DIRECTORY);
    struct statfs info {};
    if (fstatfs(mount.get(), &info) != 0) throw SysError("looking at " + place.mount);
    if (info.f_type != CGROUP_SUPER_MAGIC && info.f_type != CGROUP2_SUPER_MAGIC)
        throw Error(cat("making a cgroup for the helper: no cgroups are mounted at ", place.mount));
    return sys::open_beneath(mount.get(), place.parent.substr(1), directory_flags);
}

bool set(int folder, const char* file, const char* value) {
    Fd fd(openat(folder, file, O_WRONLY | O_CLOEXEC));
    return fd && write(fd.get(), value, strlen(value)) >= 0;
}

std::string content(int folder, const char* file, size_t limit = file_limit) {
    Fd fd(openat(folder, file, O_RDONLY | O_CLOEXEC));
    return fd ? sys::read_all(fd.get(), limit, file) : std::string();
}

}  // namespace

bool move_process(int folder, pid_t process) {
    return process == 0 ? set(folder, "cgroup.procs", "0")
                        : set(folder, "cgroup.procs", std::to_string(process).c_str());
}

bool Leaf::take(pid_t process) const {
    return folder_ && move_process(folder_.get(), process);
}

Leaf Leaf::make(const LeafPlace& place) {
    Fd parent = open_parent(place);
    if (mkdirat(parent.get(), place.name.c_str(), 0755) != 0 && errno != EEXIST)
        throw SysError(cat("making the cgroup ", place.mount, place.parent, '/', place.name));
    Fd folder = sys::open_at(parent.get(), place.name, directory_flags);
    return Leaf(std::move(parent), place.name, std::move(folder));
}

Leaf Leaf::open(int parent, const std::string& name) {
    Fd folder = sys::open_if_exists(parent, name, directory_flags);
    if (!folder) return Leaf();
    return Leaf(sys::open_at(parent, ".", directory_flags), name, std::move(folder));
}

/// Whether the group stands still, or moves again. A group that is frozen starts no process, so that none is missed.
bool Leaf::freeze(bool frozen) const {
    const char *state = "freezer.state", *stands = "FROZEN", *wanted = frozen ? "FROZEN" : "THAWED";
    if (faccessat(folder_.get(), state, F_OK, 0) != 0)
        return set(folder_.get(), "cgroup.freeze", frozen ? "1" : "0");
    for (int waited = 0; waited < freeze_ms; waited += step_ms, poll(nullptr, 0, step_ms))
        // Version 1 goes on with what it could not freeze at once when it is told or asked again.
        if (!set(folder_.get(), state, wanted) || !frozen || content(folder_.get(), state).starts_with(stands)) break;
    return true;
}

std::vector<pid_t> processes_in(int folder) {
    std::vector<pid_t> out;
    for (const std::string& line : split(content(folder, "cgroup.procs", processes_limit), '\n'))
        if (uint64_t pid = 0; parse_number(line, INT32_MAX, pid) && pid > 0) out.push_back(static_cast<pid_t>(pid));
    return out;
}

std::vector<pid_t> Leaf::members() const { return folder_ ? processes_in(folder_.get()) : std::vector<pid_t>(); }

/// A number is another process's when it is no longer in the list after its process was taken hold of. Those for which
/// there are no descriptors left are for the next time.
void Leaf::kill_one_by_one() const {
    std::vector<std::pair<pid_t, Fd>> processes;
    for (pid_t pid : members()) {
        Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (!process && errno == EMFILE) break;
        if (process) processes.emplace_back(pid, std::move(process));
    }
    std::vector<pid_t> still = members();
    std::sort(still.begin(), still.end());
    for (const auto& [pid, process] : processes)
        if (std::binary_search(still.begin(), still.end(), pid))
            syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

void Leaf::kill_all() const {
    // Linux 5.14, version 2.
    if (!folder_ || set(folder_.get(), "cgroup.kill", "1")) return;
    freeze(true);
    try {
        kill_one_by_one();
    } catch (const Error&) {
        // The list could not be read; whoever waits for the end tries again.
    }
    freeze(false);
}

bool Leaf::remove_empty() {
    if (folder_ && unlinkat(parent_.get(), name_.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) return false;
    *this = Leaf();
    return true;
}

bool Leaf::end(int timeout_ms) {
    for (int waited = 0; !remove_empty(); waited += step_ms, poll(nullptr, 0, step_ms)) {
        if (waited >= timeout_ms) return false;
        kill_all();
    }
    return true;
}

}  // namespace berth::spank
