#include "runtime/mount/fuse/session.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/operations.hh"

namespace berth::mount {

namespace {

/// How long a thread waits for memory to come back.
constexpr auto short_of_memory = std::chrono::milliseconds(100);

// Each thread talks to the kernel over its own clone of /dev/fuse, so that threads do not queue for one lock.
thread_local int channel = -1;
thread_local int session_device = -1;  ///< the descriptor that libfuse has for all threads
thread_local WorkerPool* pool = nullptr;

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

void silent(fuse_log_level, const char*, va_list) {}

#if FUSE_VERSION >= FUSE_MAKE_VERSION(3, 14)

bool set_device(fuse_session* session, int device) {
    fuse_custom_io io{};
    io.read = [](int, void* buffer, size_t size, void*) { return read_channel(buffer, size); };
    io.writev = [](int, iovec* parts, int count, void*) { return write_channel(parts, count); };
    return fuse_session_custom_io(session, &io, device) == 0;
}

/// The size of the request, 0 when the mount has gone, or -errno.
int receive_once(fuse_session* session, fuse_buf& request) { return fuse_session_receive_buf(session, &request); }

#else

/// libfuse writes to this descriptor, by writev() below.
bool set_device(fuse_session* session, int device) {
    return fuse_session_mount(session, cat("/dev/fd/", device).c_str()) == 0;
}

int receive_once(fuse_session* session, fuse_buf& request) {
    // As libfuse has it: a page of headers, and 256 pages of data, FUSE_MAX_MAX_PAGES.
    static const size_t size = 257 * page_size();
    if (request.mem == nullptr) request.mem = malloc(size);
    if (request.mem == nullptr) return -ENOMEM;
    ssize_t got = read_channel(request.mem, size);
    if (got > 0) request.size = static_cast<size_t>(got);
    if (got >= 0) return static_cast<int>(got);
    if (errno == ENODEV) fuse_session_exit(session);
    // ENOENT: who asked has taken the request back before it was read.
    return errno == ENODEV ? 0 : errno == ENOENT ? -EAGAIN : -errno;
}

#endif

}  // namespace

void SessionEnd::operator()(fuse_session* session) const { fuse_session_destroy(session); }

Session make_session(Served& served, Fd device) {
    fuse_set_log_func(silent);
    char name[] = "berth";
    char* arguments[] = {name, nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, arguments);
    Session session(fuse_session_new(&args, &operations(), sizeof(fuse_lowlevel_ops), &served));
    // libfuse has made copies.
    fuse_opt_free_args(&args);
    if (!session || !set_device(session.get(), device.get()))
        throw Error("starting the file server: libfuse refused the session");
    device.release();
    return session;
}

void use_channel(const fuse_session* session, int device, WorkerPool* told) {
    session_device = fuse_session_fd(const_cast<fuse_session*>(session));
    channel = device;
    pool = told;
}

bool request_waits(int device) {
    pollfd entry{device, POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
}

bool request_waits() { return request_waits(channel); }

bool receive(fuse_session* session, fuse_buf& request) {
    for (;;) {
        int got = receive_once(session, request);
        if (got == -ENOMEM)
            // For the buffer of a thread's first request. The others go on, and memory may come back.
            std::this_thread::sleep_for(short_of_memory);
        else if (got != -EINTR && got != -EAGAIN)
            return got > 0;
    }
}

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
