#include "runtime/apptainer/instance_use.hh"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/apptainer/instance_list.hh"
#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

using nlohmann::ordered_json;

constexpr uint64_t second = 1'000'000'000;

uint64_t number_of(std::string_view text) {
    uint64_t out = 0;
    return parse_number(std::string(text), INT64_MAX, out) ? out : 0;
}

/// The number behind "NAME:" in lines of them; 0 when there is none.
uint64_t member(std::string_view text, std::string_view name) {
    for (const std::string& line : split(text, '\n'))
        if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ':') {
            std::string rest(trimmed(std::string_view(line).substr(name.size() + 1)));
            return number_of(rest.substr(0, rest.find(' ')));
        }
    return 0;
}

/// Four digits, and powers of 1024.
std::string size_text(uint64_t bytes) {
    constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
    char out[32];
    std::snprintf(out, sizeof out, "%.4g%s", value, units[unit]);
    return out;
}

std::string percent(uint64_t part, uint64_t whole) {
    char out[32];
    std::snprintf(out, sizeof out, "%.2f%%",
                  whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole) * 100);
    return out;
}

}  // namespace

void InstanceUse::add(std::string_view stat, std::string_view smaps_rollup, std::string_view statm, std::string_view io,
                      uint64_t ticks, uint64_t page) {
    // The name, in brackets, may have any sign in it; behind it the third field comes first.
    std::vector<std::string> fields = split(stat.substr(std::min(stat.rfind(')'), stat.size())), ' ');
    constexpr size_t utime = 12, cstime = 15;
    if (fields.size() <= cstime) return;
    ++processes;
    for (size_t i = utime; i <= cstime; ++i) cpu += number_of(fields[i]) * second / ticks;
    std::vector<std::string> pages = split(statm, ' ');
    if (!smaps_rollup.empty())
        memory += member(smaps_rollup, "Pss") * 1024;
    else if (pages.size() > 1)
        memory += number_of(pages[1]) * page;
    read += member(io, "read_bytes");
    written += member(io, "write_bytes");
}

std::string use_table(const std::string& name, const InstanceUse& before, const InstanceUse& now) {
    // What has ended takes its time along, unless somebody has waited for it.
    uint64_t used = now.cpu > before.cpu ? now.cpu - before.cpu : 0;
    return columns({{"INSTANCE NAME", "CPU USAGE", "MEM USAGE / LIMIT", "MEM %", "BLOCK I/O", "PIDS"},
                    {name, percent(used, now.time - before.time),
                     cat(size_text(now.memory), " / ", size_text(now.limit)), percent(now.memory, now.limit),
                     cat(size_text(now.read), " / ", size_text(now.written)), cat(now.processes)}});
}

std::string use_json(const InstanceUse& use) {
    auto bytes = [](const char* what, uint64_t value) { return ordered_json{{"op", what}, {"value", value}}; };
    ordered_json out{{"cpu_stats", {{"cpu_usage", {{"total_usage", use.cpu}}}}},
                     {"memory_stats", {{"usage", {{"usage", use.memory}, {"limit", use.limit}}}}},
                     {"pids_stats", {{"current", use.processes}}},
                     {"blkio_stats",
                      {{"io_service_bytes_recursive",
                        ordered_json::array({bytes("Read", use.read), bytes("Write", use.written)})}}}};
    return out.dump(1, '\t') + "\n";
}

}  // namespace berth::apptainer
