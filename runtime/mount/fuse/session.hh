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

/// Waits for the next request of the calling thread; false when there will be none. The memory of `request` is made
/// when it has none, and freed by the caller with free(3).
bool receive(fuse_session* session, fuse_buf& request);

}  // namespace berth::mount
