#include "spank/overdue.hh"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <string>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::spank {

namespace {

constexpr auto patience = std::chrono::seconds(5);

/// A set of signals of /proc/PID/status, "SigPnd:\t0000000000000100": bit N - 1 is signal N.
bool has_kill(std::string_view line, std::string_view name) {
    if (!line.starts_with(name)) return false;
    size_t digit = (SIGKILL - 1) / 4;
    std::string_view value = trimmed(line.substr(name.size()));
    if (value.size() <= digit) return false;
    return std::string_view("13579bdf").find(value[value.size() - 1 - digit]) != std::string_view::npos;
}

static_assert((SIGKILL - 1) % 4 == 0, "the lowest bit of its digit");

constexpr size_t status_limit = 64 * 1024;

bool has_ended(std::string_view status) { return status.find("\nState:\tZ") != std::string_view::npos; }

/// Of a process whose first thread has ended before the others, as a program may have it.
Fate fate_of_threads(pid_t pid) {
    std::string folder = cat("/proc/", pid, "/task");
    for (const std::string& thread : sys::list_directory(sys::open_file(folder, O_RDONLY | O_DIRECTORY).get(), folder))
        if (std::string status = sys::read_file(cat(folder, '/', thread, "/status"), status_limit); !has_ended(status))
            return fate_of(status);
    return Fate::lives;
}

}  // namespace

Fate fate_of(std::string_view status) {
    Fate out = Fate::lives;
    for (const std::string& line : split(status, '\n')) {
        if (has_kill(line, "ShdPnd:")) return Fate::killed;
        // The kernel ends the threads of a process by this, whatever signal ends the process.
        if (has_kill(line, "SigPnd:")) out = Fate::ends;
    }
    return out;
}

std::optional<Fate> fate_of(pid_t pid) try {
    std::string status = sys::read_file(cat("/proc/", pid, "/status"), status_limit);
    Fate fate = fate_of(status);
    return fate == Fate::lives && has_ended(status) ? fate_of_threads(pid) : fate;
} catch (const Error&) {
    return std::nullopt;
}

bool Overdue::judge(const std::map<pid_t, Fate>& tasks, Clock::time_point now) {
    std::erase_if(limits_, [&](const auto& limit) {
        auto task = tasks.find(limit.first);
        return task == tasks.end() || task->second == Fate::lives;
    });
    bool out = !tasks.empty();
    for (const auto& [pid, fate] : tasks) {
        if (fate == Fate::lives) {
            out = false;
            continue;
        }
        Clock::time_point limit = now + patience + (fate == Fate::killed ? std::chrono::seconds(0) : kill_wait_);
        auto& kept = limits_.try_emplace(pid, limit).first->second;
        kept = std::min(kept, limit);
        out = out && now >= kept;
    }
    return out;
}

}  // namespace berth::spank
