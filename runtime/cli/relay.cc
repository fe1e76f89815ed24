#include "runtime/cli/relay.hh"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <tuple>

#include "runtime/base/sys.hh"

namespace berth::cli {

namespace {

constexpr size_t piece = 64 << 10;

/// False when nobody takes it.
bool write_all(int fd, const char* data, size_t size) {
    while (size > 0) {
        ssize_t put = ::write(fd, data, size);
        if (put < 0 && errno == EAGAIN) {
            // Whoever shares the descriptor may have chosen that writing does not wait.
            pollfd wait{fd, POLLOUT, 0};
            ::poll(&wait, 1, -1);
            continue;
        }
        if (put < 0 && errno != EINTR) return false;
        if (put <= 0) continue;
        data += put;
        size -= static_cast<size_t>(put);
    }
    return true;
}

size_t waiting_bytes(int fd) {
    int size = 0;
    return ::ioctl(fd, FIONREAD, &size) == 0 && size > 0 ? static_cast<size_t>(size) : 0;
}

}  // namespace

Relay::Relay(int from, int to, bool ends_output) {
    std::tie(bell_read_, bell_write_) = sys::make_pipe();
    thread_ = std::thread([this, from, to, ends_output] { copy(from, to, ends_output); });
}

Relay::~Relay() { finish(); }

void Relay::finish() {
    bell_write_.reset();
    if (thread_.joinable()) thread_.join();
}

void Relay::copy(int from, int to, bool ends_output) const {
    char buffer[piece];
    size_t left = SIZE_MAX;
    while (left > 0) {
        pollfd wait[2] = {{from, POLLIN, 0}, {left == SIZE_MAX ? bell_read_.get() : -1, POLLIN, 0}};
        if (::poll(wait, 2, -1) < 0) continue;
        if (wait[1].revents != 0) {
            left = waiting_bytes(from);
            continue;
        }
        ssize_t got = ::read(from, buffer, std::min(sizeof buffer, left));
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) break;
        if (!write_all(to, buffer, static_cast<size_t>(got))) return;
        if (left != SIZE_MAX) left -= static_cast<size_t>(got);
    }
    if (ends_output) ::shutdown(to, SHUT_WR);
}

}  // namespace berth::cli
