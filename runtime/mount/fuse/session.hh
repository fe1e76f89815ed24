// A session of libfuse whose threads each talk to the kernel over a descriptor of their own, with what libfuse leaves
// out: answers that the kernel cannot take at once are sent again.
#pragma once
#include <memory>

#include "runtime/base/fd.hh"
#include "runtime/mount/fuse/served.hh"
#include "runtime/mount/fuse/worker_pool.hh"

struct fuse_buf;
struct fuse_session;

namespace berth::mount {

struct SessionEnd {
    void operator()(fuse_session* session) const;
};
using Session = std::unique_ptr<fuse_session, SessionEnd>;

/// Takes `device`, an open /dev/fuse, over. Throws Error when libfuse refuses.
Session make_session(Served& served, Fd device);

/// From now on the calling thread talks to the kernel over `device`: that of the session or a clone of it. `pool` is
/// told before each answer whether a further request waits.
void use_channel(const fuse_session* session, int device, WorkerPool* pool);

/// Whether the kernel has a request for who reads from `device`, or for the calling thread.
bool request_waits(int device);
bool request_waits();

/// Waits for the next request of the calling thread; false when there will be none. The memory of `request` is made
/// when it has none, and freed by the caller with free(3).
bool receive(fuse_session* session, fuse_buf& request);

}  // namespace berth::mount
