#include "runtime/enroot/list.hh"

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::enroot {

namespace {

constexpr int64_t minute = 60, hour = 3600, day = 24 * hour, year = 365 * day;

/// Of /proc/PID/stat, as proc(5) counts them less those before the name's end.
enum Field { state = 0, process_group = 2, session = 3, terminal_group = 5, nice = 16, threads = 17, start = 19 };

struct Stat {
    std::string comm;
    std::vector<std::string> fields;
    int64_t number(Field which) const { return std::atoll(fields[which].c_str()); }
};

/// A name may have blanks and brackets in it; the last one ends it.
Stat parse_stat(std::string_view text) {
    size_t open = text.find('('), close = text.rfind(") ");
    if (open == text.npos || close == text.npos || close < open) throw Error("reading /proc: a stat without a name");
    Stat out{std::string(text.substr(open + 1, close - open - 1)), split(trimmed(text.substr(close + 2)), ' ')};
    if (out.fields.size() <= start) throw Error("reading /proc: a stat with too few fields");
    return out;
}

/// PROCESS STATE CODES of ps(1).
std::string state_of(const Stat& stat, pid_t pid) {
    std::string out = stat.fields[state];
    if (stat.number(nice) != 0) out += stat.number(nice) < 0 ? '<' : 'N';
    if (stat.number(session) == pid) out += 's';
    if (stat.number(threads) > 1) out += 'l';
    if (stat.number(terminal_group) == stat.number(process_group)) out += '+';
    return out;
}

/// The time of the day, or from the second day on the day, or the year.
std::string started_text(int64_t at, int64_t now) {
    std::time_t time = at;
    std::tm fields{};
    ::localtime_r(&time, &fields);
    char text[32];
    if (now - at > year) return {text, std::strftime(text, sizeof text, "%Y", &fields)};
    if (now - at > day) return {text, std::strftime(text, sizeof text, "%b%d", &fields)};
    return {text, std::strftime(text, sizeof text, "%H:%M", &fields)};
}

std::string two_digits(int64_t number) { return cat(number < 10 ? "0" : "", number); }

/// [[DD-]hh:]mm:ss
std::string elapsed_text(int64_t seconds) {
    seconds = std::max<int64_t>(seconds, 0);
    std::string out;
    if (seconds >= day) out = two_digits(seconds / day) + "-";
    if (seconds >= hour) out += two_digits(seconds % day / hour) + ":";
    return out + two_digits(seconds % hour / minute) + ":" + two_digits(seconds % minute);
}

std::string command_text(std::string_view cmdline, const std::string& comm) {
    std::string out(cmdline.substr(0, cmdline.find_last_not_of('\0') + 1));
    std::replace(out.begin(), out.end(), '\0', ' ');
    return out.empty() ? cat("[", printable(comm), "]") : printable(out, 4096);
}

using Cells = std::vector<std::string>;

std::vector<Cells> cells_of(const std::vector<ListedContainer>& containers) {
    std::vector<Cells> out{
        {"NAME", "PID", "COMM", "STATE", "STARTED", "TIME", "MNTNS", "USERNS", "COMMAND"}};
    for (const ListedContainer& one : containers) {
        if (one.processes.empty()) out.push_back({one.name});
        std::string name = one.name;
        for (const ListedProcess& process : one.processes)
            out.push_back({std::exchange(name, " "), std::to_string(process.pid), process.comm, process.state,
                           process.started, process.time, process.mount_namespace, process.user_namespace,
                           process.command});
    }
    return out;
}

}  // namespace

ListedProcess listed(const ProcessFacts& facts, const Clock& clock) {
    Stat stat = parse_stat(facts.stat);
    int64_t at = clock.boot + stat.number(start) / static_cast<int64_t>(clock.ticks);
    return {facts.pid,
            printable(stat.comm),
            state_of(stat, facts.pid),
            started_text(at, clock.now),
            elapsed_text(clock.now - at),
            std::to_string(facts.mount_namespace),
            std::to_string(facts.user_namespace),
            command_text(facts.cmdline, stat.comm)};
}

std::string fancy_table(const std::vector<ListedContainer>& containers) {
    std::vector<Cells> rows = cells_of(containers);
    std::vector<size_t> widths(rows[0].size());
    for (const Cells& row : rows)
        for (size_t at = 0; at < row.size(); ++at) widths[at] = std::max(widths[at], row[at].size());
    std::string out;
    for (const Cells& row : rows) {
        for (size_t at = 0; at < row.size(); ++at) {
            out += row[at];
            if (at + 1 < row.size()) out += std::string(widths[at] - row[at].size() + 2, ' ');
        }
        out += '\n';
    }
    return out;
}

}  // namespace berth::enroot
