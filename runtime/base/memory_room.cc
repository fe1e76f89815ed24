#include "runtime/base/memory_room.hh"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <string>

#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr const char* groups_root = "/sys/fs/cgroup";

std::optional<uint64_t> number_in(const FileReader& read, const std::string& path) {
    auto text = read(path);
    uint64_t value = 0;
    if (!text || !parse_number(trimmed(*text), UINT64_MAX, value)) return std::nullopt;
    return value;
}

/// The number behind `name` at the start of a line; 0 when there is none.
uint64_t line_value(std::string_view text, std::string_view name) {
    for (const std::string& line : split(std::string(text), '\n')) {
        if (!line.starts_with(name)) continue;
        std::string_view rest = trimmed(std::string_view(line).substr(name.size()));
        uint64_t value = 0;
        if (parse_number(rest.substr(0, rest.find(' ')), UINT64_MAX, value)) return value;
    }
    return 0;
}

void take_group(MemoryRoom& out, const std::string& group, bool second, const FileReader& read) {
    auto limit = number_in(read, group + (second ? "/memory.max" : "/memory.limit_in_bytes"));
    // Version 1 writes "none" as the largest number of pages.
    if (!limit || *limit >= uint64_t{1} << 62) return;
    auto used = number_in(read, group + (second ? "/memory.current" : "/memory.usage_in_bytes"));
    uint64_t cache = line_value(read(group + "/memory.stat").value_or(""), second ? "file " : "total_cache ");
    uint64_t kept = used.value_or(0) - std::min(used.value_or(0), cache);
    out.limit = std::min(out.limit.value_or(UINT64_MAX), *limit);
    out.left = std::min(out.left, *limit - std::min(*limit, kept));
}

bool names_memory(const std::string& controllers) {
    auto names = split(controllers, ',');
    return std::find(names.begin(), names.end(), "memory") != names.end();
}

}  // namespace

uint64_t own_memory(int proc) noexcept try {
    Fd file = sys::try_open_at(proc, "self/smaps_rollup", O_RDONLY);
    constexpr size_t limit = 64 << 10;
    return file ? line_value(sys::read_all(file.get(), limit, "smaps_rollup"), "Pss:") << 10 : 0;
} catch (const std::exception&) {
    return 0;
}

MemoryRoom memory_room(std::string_view membership, const FileReader& read) {
    MemoryRoom out;
    for (const std::string& line : split(std::string(membership), '\n')) {
        size_t first = line.find(':'), second = line.find(':', first + 1);
        if (first == line.npos || second == line.npos) continue;
        std::string controllers = line.substr(first + 1, second - first - 1), path = line.substr(second + 1);
        bool version_2 = controllers.empty();
        if (!path.starts_with('/') || (!version_2 && !names_memory(controllers))) continue;
        std::string root = version_2 ? groups_root : cat(groups_root, "/memory");
        for (;; path.erase(path.rfind('/'))) {
            if (path == "/") path.clear();
            take_group(out, root + path, version_2, read);
            if (path.empty()) break;
        }
    }
    if (auto node = read("/proc/meminfo")) {
        uint64_t kilobytes = line_value(*node, "MemAvailable:");
        if (kilobytes != 0) out.left = std::min(out.left, kilobytes << 10);
    }
    return out;
}

}  // namespace berth
