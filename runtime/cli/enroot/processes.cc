#include "runtime/cli/enroot/processes.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/mountinfo.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::cli {

namespace {

constexpr size_t file_limit = 16 << 20;

/// The device and inode of a namespace are its identity; all are of one file system.
ino_t namespace_of(const std::string& process, const char* kind) {
    struct stat st {};
    return ::stat(cat(process, "/ns/", kind).c_str(), &st) == 0 ? st.st_ino : 0;
}

bool is_callers(const std::string& process) {
    struct stat st {};
    return ::stat(process.c_str(), &st) == 0 && st.st_uid == ::geteuid();
}

/// Of the overlay that is the process's root, when one of Berth's is.
std::string root_source(const std::string& process) {
    for (const MountLine& line : parse_mountinfo(sys::read_file(process + "/mountinfo", file_limit)))
        if (line.place == "/" && line.source.starts_with("berth")) return line.source;
    return {};
}

std::string step_of(const std::string& process) {
    std::vector<std::string> environment = split(sys::read_file(process + "/environ", file_limit), '\0');
    std::string job = value_in(environment, "SLURM_JOB_ID"), step = value_in(environment, "SLURM_STEP_ID");
    return job.empty() || step.empty() ? "" : cat(job, ".", step);
}

enroot::Clock clock_of_node() {
    enroot::Clock out{std::time(nullptr), 0, static_cast<uint64_t>(::sysconf(_SC_CLK_TCK))};
    for (const std::string& line : split(sys::read_file("/proc/stat", file_limit), '\n'))
        if (line.starts_with("btime ")) out.boot = std::atoll(line.c_str() + 6);
    return out;
}

/// Nothing for a process that is in no container of Berth's, is closed to the caller, or has ended meanwhile.
std::optional<ContainerProcess> process_of(const std::string& pid, ino_t own, const enroot::Clock& clock) try {
    std::string process = "/proc/" + pid;
    if (!is_callers(process)) return std::nullopt;
    ContainerProcess out;
    out.mount_namespace = namespace_of(process, "mnt");
    if (out.mount_namespace == 0 || out.mount_namespace == own) return std::nullopt;
    out.source = root_source(process);
    if (out.source.empty()) return std::nullopt;
    out.step = step_of(process);
    std::string stat = sys::read_file(process + "/stat"), command = sys::read_file(process + "/cmdline", file_limit);
    out.listed = enroot::listed({static_cast<pid_t>(std::atoi(pid.c_str())), stat, command, out.mount_namespace,
                                 namespace_of(process, "user")},
                                clock);
    return out;
} catch (const Error&) {
    return std::nullopt;
}

}  // namespace

std::vector<ContainerProcess> container_processes() {
    enroot::Clock clock = clock_of_node();
    ino_t own = namespace_of("/proc/self", "mnt");
    std::vector<ContainerProcess> out;
    Fd proc = sys::open_file("/proc", O_RDONLY | O_DIRECTORY);
    for (const std::string& name : sys::list_directory(proc.get(), "/proc")) {
        uint64_t pid = 0;
        if (!parse_number(name, INT32_MAX, pid)) continue;
        if (auto process = process_of(name, own, clock)) out.push_back(std::move(*process));
    }
    std::sort(out.begin(), out.end(),
              [](const auto& one, const auto& other) { return one.listed.pid < other.listed.pid; });
    std::vector<ino_t> seen;
    std::erase_if(out, [&](const ContainerProcess& one) {
        if (std::find(seen.begin(), seen.end(), one.mount_namespace) != seen.end()) return true;
        seen.push_back(one.mount_namespace);
        return false;
    });
    return out;
}

}  // namespace berth::cli
