#include "runtime/mount/fuse/channel.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace berth::mount {

namespace {

// Each thread talks to the kernel over its own clone of /dev/fuse, so that threads do not queue for one lock.
thread_local int channel = -1;
thread_local int session_device = -1;  ///< the descriptor that libfuse has for all threads
thread_local WorkerPool* pool = nullptr;

}  // namespace

ssize_t read_channel(void* buffer, size_t size) { return ::read(channel, buffer, size); }

ssize_t write_channel(const iovec* parts, int count) {
    // What is there now came while this thread was at work: after the answer it might be the next request of the same
    // program.
    if (pool != nullptr) pool->served(request_waits(channel));
    for (;;) {
        ssize_t written = ::syscall(SYS_writev, channel, parts, count);
        // Who asked would wait for ever for an answer that is not sent, and libfuse does not send it again.
        if (written >= 0 || (errno != ENOMEM && errno != EINTR && errno != EAGAIN)) return written;
        std::this_thread::sleep_for(short_of_memory);
    }
}

void use_channel(const fuse_session* session, int device, WorkerPool* told) {
    session_device = fuse_session_fd(const_cast<fuse_session*>(session));
    channel = device;
    pool = told;
}

int channel_in_use() { return channel; }

bool request_waits(int device) {
    pollfd entry{device, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

bool request_waits() { return request_waits(channel); }

}  // namespace berth::mount

#if FUSE_VERSION < FUSE_MAKE_VERSION(3, 14)
/// Such a libfuse has no place for a function that writes answers. The program's own writev(2) stands before the C
/// library's, for libfuse as an archive and as a shared library alike.
extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
    using namespace berth::mount;
    if (channel >= 0 && fd == session_device) return write_channel(parts, count);
    return ::syscall(SYS_writev, fd, parts, count);
}
#endif
