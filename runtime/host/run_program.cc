#include "runtime/host/run_program.hh"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t output_limit = 4 << 20, complaint_limit = 64 << 10;
constexpr auto patience_after_kill = std::chrono::seconds(1);

Fd memory_with(const std::string& text) {
    Fd memory(::memfd_create("berth-input", MFD_CLOEXEC));
    if (!memory) throw SysError("making room for a program's input");
    sys::write_all(memory.get(), text, "a program's input");
    ::lseek(memory.get(), 0, SEEK_SET);
    return memory;
}

/// The last line, whatever was written.
std::string last_line(int fd) {
    std::string text(complaint_limit, '\0');
    off_t size = sys::stat_of(fd, "a program's complaints").st_size;
    off_t start = std::max<off_t>(0, size - static_cast<off_t>(complaint_limit));
    ssize_t got = ::pread(fd, text.data(), text.size(), start);
    text.resize(got < 0 ? 0 : static_cast<size_t>(got));
    std::string_view line = trimmed(text);
    return printable(line.substr(line.rfind('\n') + 1), 1024);
}

using Clock = std::chrono::steady_clock;

/// False when nothing can be read by then.
bool readable(int fd, Clock::time_point end) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    return left > 0 && ::poll(&wait, 1, static_cast<int>(left)) > 0;
}

/// False when the time is over or it is too much.
bool read_until_end(int fd, Clock::time_point end, std::string& out) {
    char buffer[16384];
    for (;;) {
        if (!readable(fd, end)) return false;
        ssize_t got = ::read(fd, buffer, sizeof buffer);
        if (got <= 0) return true;
        out.append(buffer, static_cast<size_t>(got));
        if (out.size() > output_limit) return false;
    }
}

}  // namespace

std::string why_it_failed(const ProgramAnswer& answer, std::chrono::seconds limit) {
    if (answer.code < 0)
        return cat("it gave no answer within ", limit.count(), " s, or one of more than ", output_limit >> 20, " MiB",
                   answer.complaint.empty() ? "" : ": " + answer.complaint);
    return answer.complaint.empty() ? "it " + silent_end(answer.code) : answer.complaint;
}

ProgramAnswer run_program(const std::string& program, const std::vector<std::string>& arguments,
                          const std::string& input, std::chrono::seconds limit,
                          const std::vector<std::string>* environment) {
    Fd given = memory_with(input), complaints = memory_with("");
    auto end = Clock::now() + limit;
    Child child(program, arguments, given.get(), complaints.get(), environment);
    ProgramAnswer out;
    out.code = -1;
    // A program may close its output and stay.
    if (read_until_end(child.output(), end, out.output) && readable(sys::pidfd_open(child.pid()).get(), end))
        out.code = child.wait();
    else
        child.kill_or_leave(patience_after_kill);
    out.complaint = last_line(complaints.get());
    return out;
}

}  // namespace berth
