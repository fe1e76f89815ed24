#include "spank/memory_kills.hh"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/cgroup.hh"

namespace berth::spank {

namespace {

constexpr std::string_view kills_key = "oom_kill ";

uint64_t kills_in(int file) {
    char buffer[4096];
    ssize_t size = pread(file, buffer, sizeof buffer, 0);
    return size > 0 ? oom_kills({buffer, static_cast<size_t>(size)}) : 0;
}

}  // namespace

std::string memory_events_file(std::string_view cgroups) {
    std::string unified;
    for (const std::string& line : split(cgroups, '\n')) {
        size_t first = line.find(':'), second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos) continue;
        std::string names = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
        std::vector<std::string> controllers = split(names, ',');
        if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end())
            return cat(cgroup_folder, '/', names, path, "/memory.oom_control");
        if (names.empty()) unified = cat(cgroup_folder, path, "/memory.events");
    }
    return unified;
}

uint64_t oom_kills(std::string_view events) {
    uint64_t number = 0;
    for (const std::string& line : split(events, '\n'))
        if (line.starts_with(kills_key) && parse_number(line.substr(kills_key.size()), UINT64_MAX, number))
            return number;
    return 0;
}

void MemoryKills::open(int leaf) try {
    if (file_) return;
    // Of version 2 alone: in a group of version 1 that is the helper's own its memory is not counted.
    if (leaf >= 0) file_ = sys::open_if_exists(leaf, "memory.events", O_RDONLY);
    if (!file_) {
        std::string path = memory_events_file(sys::read_file("/proc/self/cgroup", proc_file_limit));
        if (!path.empty()) file_ = sys::open_if_exists(AT_FDCWD, path, O_RDONLY);
    }
    if (file_) before_ = kills_in(file_.get());
} catch (const Error&) {
    // Then a death has one reason less.
}

uint64_t MemoryKills::count() const {
    uint64_t now = file_ ? kills_in(file_.get()) : 0;
    return now > before_ ? now - before_ : 0;
}

}  // namespace berth::spank
