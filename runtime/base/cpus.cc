#include "runtime/base/cpus.hh"

#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr const char* cgroup_root = "/sys/fs/cgroup";
constexpr size_t file_limit = 64 << 10;

/// Time in a period, each in microseconds; a quota that is no number ("max", "-1") is none.
std::optional<double> share(std::string_view quota, std::string_view period) {
    uint64_t time = 0, of = 0;
    if (!parse_number(trimmed(quota), INT64_MAX, time) || !parse_number(trimmed(period), INT64_MAX, of) || of == 0)
        return std::nullopt;
    return static_cast<double>(time) / static_cast<double>(of);
}

std::optional<double> version_2(const std::string& group, const FileReader& read) {
    auto text = read(group + "/cpu.max");
    if (!text) return std::nullopt;
    std::string_view line = trimmed(*text);
    size_t space = line.find(' ');
    return space == line.npos ? std::nullopt : share(line.substr(0, space), line.substr(space + 1));
}

std::optional<double> version_1(const std::string& group, const FileReader& read) {
    auto quota = read(group + "/cpu.cfs_quota_us"), period = read(group + "/cpu.cfs_period_us");
    return quota && period ? share(*quota, *period) : std::nullopt;
}

void keep_least(std::optional<double>& least, std::optional<double> other) {
    if (other && (!least || *other < *least)) least = other;
}

bool names_cpu(std::string_view controllers) {
    auto names = split(std::string(controllers), ',');
    return std::find(names.begin(), names.end(), "cpu") != names.end();
}

/// CPUs of the affinity mask, however many the machine has; 0 when it cannot be read.
unsigned affinity() {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        size_t size = CPU_ALLOC_SIZE(cpus);
        std::vector<unsigned long> mask(size / sizeof(unsigned long));
        auto* set = reinterpret_cast<cpu_set_t*>(mask.data());
        if (::sched_getaffinity(0, size, set) == 0) return static_cast<unsigned>(CPU_COUNT_S(size, set));
    }
    return 0;
}

std::optional<std::string> contents(const std::string& path) {
    // Most of the files that are looked for do not exist, and each start of a container looks for them.
    try {
        Fd file = sys::open_if_exists(AT_FDCWD, path, O_RDONLY);
        if (file) return sys::read_all(file.get(), file_limit, path);
    } catch (const Error&) {
        // What cannot be read limits nothing.
    }
    return std::nullopt;
}

}  // namespace

std::optional<double> cgroup_cpus(std::string_view membership, const FileReader& read) {
    std::optional<double> least;
    for (const std::string& line : split(std::string(membership), '\n')) {
        // HIERARCHY:CONTROLLERS:PATH, of which version 2 is 0::PATH (cgroups(7)).
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
        if (!path.starts_with('/') || (!controllers.empty() && !names_cpu(controllers))) continue;
        std::string root = controllers.empty() ? cgroup_root : cat(cgroup_root, "/cpu");
        for (;; path.erase(path.rfind('/'))) {
            if (path == "/") path.clear();
            keep_least(least, controllers.empty() ? version_2(root + path, read) : version_1(root + path, read));
            if (path.empty()) break;
        }
    }
    return least;
}

unsigned usable_cpus() {
    unsigned cpus = affinity();
    if (cpus == 0) cpus = std::thread::hardware_concurrency();
    if (auto membership = contents("/proc/self/cgroup"))
        // A broken share is rounded up: a thread that is held back costs less than a CPU that is idle.
        if (auto limit = cgroup_cpus(*membership, contents))
            cpus = std::min(cpus, static_cast<unsigned>(std::ceil(std::min(*limit, 1e6))));
    return std::max(cpus, 1U);
}

}  // namespace berth
