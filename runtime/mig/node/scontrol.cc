#include "runtime/mig/node/scontrol.hh"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/child.hh"
#include "runtime/base/command.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::mig {

namespace {

constexpr size_t most_bytes = 1 << 20;

/// False when the time is over before the end of the output.
bool read_until(int fd, std::chrono::steady_clock::time_point end, std::string& out) {
    char buffer[4096];
    for (;;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd one{fd, POLLIN, 0};
        if (left.count() <= 0 || ::poll(&one, 1, static_cast<int>(left.count())) == 0) return false;
        ssize_t count = ::read(fd, buffer, sizeof buffer);
        if (count == 0) return true;
        if (count < 0 && errno != EINTR) return false;
        if (count > 0 && out.size() < most_bytes) out.append(buffer, static_cast<size_t>(count));
    }
}

}  // namespace

std::string scontrol_answer(const std::string& program, const std::string& path, uint32_t job,
                            std::chrono::seconds patience) {
    Child child(find_command(program, path), {"--details", "show", "job", std::to_string(job)});
    std::string out;
    if (!read_until(child.output(), std::chrono::steady_clock::now() + patience, out)) {
        child.kill_or_leave(std::chrono::seconds(5));
        throw Error(cat("asking Slurm about job ", job, ": no answer within ", patience.count(), " s; see whether ",
                        printable(program), " gets one on the node"));
    }
    if (int code = child.wait(); code != 0)
        throw Error(cat("asking Slurm about job ", job, ": ", printable(program), " ends with ", code,
                        "; see what it prints on the node"));
    return out;
}

}  // namespace berth::mig
