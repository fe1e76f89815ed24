#include "runtime/mount/fuse/session.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/channel.hh"
#include "runtime/mount/fuse/operations.hh"

namespace berth::mount {

namespace {

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
