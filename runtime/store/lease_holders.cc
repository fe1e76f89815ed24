#include "runtime/store/lease_holders.hh"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::store {

namespace {

constexpr size_t proc_limit = 16 << 20;

std::string text_of(const std::string& path) {
    try {
        return sys::read_file(path, proc_limit);
    } catch (const Error&) {
        return {};
    }
}

/// "45.0" of .../job_45/step_0/..., in whatever version of cgroups; empty for none.
std::string step_in(std::string_view cgroups) {
    size_t job = cgroups.find("/job_"), step = cgroups.find("/step_", job == cgroups.npos ? 0 : job);
    if (job == cgroups.npos || step == cgroups.npos) return {};
    auto word = [&](size_t from) { return cgroups.substr(from, cgroups.find_first_of("/\n", from) - from); };
    return cat(printable(word(job + 5)), ".", printable(word(step + 6)));
}

}  // namespace

std::vector<pid_t> lock_holders(std::string_view locks, dev_t device, ino_t inode) {
    char wanted[64];
    std::snprintf(wanted, sizeof wanted, "%02x:%02x:%llu", major(device), minor(device),
                  static_cast<unsigned long long>(inode));
    std::vector<pid_t> out;
    for (const std::string& line : split(locks, '\n')) {
        // "1: FLOCK  ADVISORY  READ 1234 00:2f:5678 0 EOF"; who waits has "->" behind the number, and holds nothing.
        std::vector<std::string> words;
        for (const std::string& word : split(line, ' '))
            if (!word.empty()) words.push_back(word);
        uint64_t pid = 0;
        if (words.size() < 6 || words[1] != "FLOCK" || words[5] != wanted || !parse_number(words[4], INT32_MAX, pid))
            continue;
        if (pid != 0 && std::find(out.begin(), out.end(), static_cast<pid_t>(pid)) == out.end())
            out.push_back(static_cast<pid_t>(pid));
    }
    return out;
}

std::string described_process(pid_t pid) {
    std::string process = cat("/proc/", pid), command = text_of(process + "/cmdline");
    if (command.empty()) return {};
    while (command.ends_with('\0')) command.pop_back();
    std::replace(command.begin(), command.end(), '\0', ' ');
    std::string step = step_in(text_of(process + "/cgroup"));
    return cat("process ", pid, " (", printable(command, 80), ")", step.empty() ? "" : " of step ", step);
}

std::string described_holders(int fd) {
    struct stat at {};
    if (::fstat(fd, &at) != 0) return {};
    std::vector<std::string> found;
    for (pid_t pid : lock_holders(text_of("/proc/locks"), at.st_dev, at.st_ino))
        if (std::string one = described_process(pid); !one.empty()) found.push_back(one);
    if (found.empty()) return {};
    return found.size() == 1 ? found[0] : cat(found[0], " and ", found.size() - 1, " more");
}

}  // namespace berth::store
