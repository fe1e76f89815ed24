#include "spank/follow.hh"

#include <poll.h>

#include <cerrno>
#include <chrono>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"

namespace berth::spank {

namespace {

using Clock = std::chrono::steady_clock;

/// What is left of `limit_ms` since `start`, for poll(2).
int left_of(int limit_ms, Clock::time_point start) {
    if (limit_ms < 0) return -1;
    auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
    return passed >= limit_ms ? 0 : static_cast<int>(limit_ms - passed);
}

}  // namespace

HelperLines::HelperLines(size_t most) : most_(most), inbox_(plan::said_limits) {}

HelperLines::Status HelperLines::read(int socket) {
    Status status = inbox_.read(socket);
    if (status != Status::message) return status;
    if (++lines_ > most_)
        throw Error(cat("reading a message of berth's plugin or helper: it is one of more than ", most_));
    Message message = inbox_.take().message;
    line_ = plan::progress_text(message);
    last_ = plan::is_last(message);
    return status;
}

std::string HelperLines::take() {
    return printable(line_, plan::said_limits.packet);
}

SaveEnd follow_save(int socket, int sentinel, int limit_ms, const std::function<void(const std::string&)>& show) {
    pollfd waiting[2] = {{socket, POLLIN, 0}, {sentinel, POLLIN, 0}};
    Clock::time_point start = Clock::now();
    for (HelperLines lines;;) {
        int left = left_of(limit_ms, start);
        if (left == 0) return SaveEnd::over_time;
        if (poll(waiting, 2, left) < 0 && errno != EINTR) throw SysError("waiting");
        // A line at a time, so that a helper that never ends does not keep Slurm from being heard.
        if (waiting[0].revents != 0) {
            HelperLines::Status status = lines.read(socket);
            if (status == HelperLines::Status::closed) return SaveEnd::done;
            if (status == HelperLines::Status::message) show(lines.take());
        }
        if (waiting[1].revents != 0) return SaveEnd::cancelled;
    }
}

}  // namespace berth::spank
