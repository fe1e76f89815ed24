#include "runtime/base/debug_log.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>
#include <vector>

#include "runtime/base/error.hh"

namespace berth::debug {

namespace {

constexpr size_t text_limit = 2000;

/// Not destroyed at exit: other threads may write until the end.
struct Log {
    std::string program;
    std::string before;  ///< before each line; empty: a line is a packet
    int place = -1;
    std::pair<dev_t, ino_t> identity;
    std::vector<Fd> children;
};
Log& log_of_process() {
    static Log& log = *new Log;
    return log;
}

std::pair<dev_t, ino_t> identity_of(int descriptor) {
    struct stat st {};
    return ::fstat(descriptor, &st) == 0 ? std::pair(st.st_dev, st.st_ino) : std::pair<dev_t, ino_t>();
}

void begin(const std::string& program, int place, const char* before) {
    Log& log = log_of_process();
    if (log.place >= 0) ::close(log.place);
    log.children.clear();
    log.program = program;
    log.before = before;
    // Over the numbers that tasks and their starters know.
    log.place = ::fcntl(place, F_DUPFD_CLOEXEC, 16);
    log.identity = identity_of(log.place);
    detail::is_on = log.place >= 0;
}

/// One call, so that lines of several processes do not mix.
void put(std::string_view line) {
    const Log& log = log_of_process();
    // A process that is about to execute a program has closed it, and may have another one of that number.
    if (identity_of(log.place) != log.identity) return;
    std::string text = log.before.empty() ? std::string(line) : cat(log.before, line, '\n');
    [[maybe_unused]] ssize_t written = log.before.empty()
                                           ? ::send(log.place, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : ::write(log.place, text.data(), text.size());
}

void put_those_of_children() {
    char line[2 * text_limit];
    for (const Fd& child : log_of_process().children)
        for (ssize_t size; (size = ::recv(child.get(), line, sizeof line, MSG_DONTWAIT)) > 0;)
            put({line, static_cast<size_t>(size)});
}

}  // namespace

bool is_wanted(const char* value) {
    std::string_view text = value != nullptr ? value : "";
    if (text.empty() || text == "off") return false;
    if (asks_for_log(value)) return true;
    throw Error(cat("BERTH_LOG=", printable(text), ": write debug, or off"));
}

bool asks_for_log(const char* value) noexcept {
    return value != nullptr && std::string_view(value) == "debug";
}

void start(const std::string& program) {
    begin(program, STDERR_FILENO, "berth: ");
}

void start(const std::string& program, Fd socket) {
    begin(program, socket.get(), "");
}

void start_in_report(const std::string& program) {
    begin(program, STDOUT_FILENO, "log ");
}

void silence() {
    detail::is_on = false;
}

void end() {
    silence();
    Log& log = log_of_process();
    if (identity_of(log.place) == log.identity) ::close(log.place);
    log.place = -1;
    log.children.clear();
}

Fd socket_for_child() {
    if (!is_on() || log_of_process().before.empty()) return {};
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
    log_of_process().children.emplace_back(ends[0]);
    return Fd(ends[1]);
}

int descriptor() {
    return is_on() ? log_of_process().place : -1;
}

void pass(std::string_view line) {
    if (is_on()) put(printable(line, 2 * text_limit));
}

std::string line_of(std::string_view program, int process, uint64_t microseconds, std::string_view part,
                    std::string_view text) {
    constexpr uint64_t million = 1'000'000;
    std::time_t seconds = static_cast<std::time_t>(microseconds / million);
    std::tm utc{};
    // No file of a time zone is read: here the root may be the container's.
    ::gmtime_r(&seconds, &utc);
    char time[64];
    std::snprintf(time, sizeof time, "%04d-%02d-%02dT%02d:%02d:%02d.%06uZ", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<unsigned>(microseconds % million));
    return cat("debug ", time, ' ', program, '[', process, "] ", part, ": ", printable(text, text_limit));
}

void detail::write(std::string_view part, std::string_view text) {
    using namespace std::chrono;
    int number = errno;
    auto now = duration_cast<std::chrono::microseconds>(system_clock::now().time_since_epoch()).count();
    put_those_of_children();
    put(line_of(log_of_process().program, ::getpid(), static_cast<uint64_t>(now), part, text));
    errno = number;
}

}  // namespace berth::debug
