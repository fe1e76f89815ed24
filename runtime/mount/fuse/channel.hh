// Which descriptor of /dev/fuse the calling thread talks to the kernel over.
#pragma once
#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>

#include "runtime/mount/fuse/worker_pool.hh"

struct fuse_session;

namespace berth::mount {

/// How long a thread waits for memory to come back.
inline constexpr auto short_of_memory = std::chrono::milliseconds(100);

/// From now on the calling thread talks to the kernel over `device`: that of the session or a clone of it. `pool` is
/// told before each answer whether a further request waits.
void use_channel(const fuse_session* session, int device, WorkerPool* pool);

/// What use_channel() was given: the answer to a request goes over the descriptor that it came by.
int channel_in_use();

/// What libfuse reads and writes by.
ssize_t read_channel(void* buffer, size_t size);
ssize_t write_channel(const iovec* parts, int count);

/// Whether the kernel has a request for who reads from `device`, or for the calling thread.
bool request_waits(int device);
bool request_waits();

}  // namespace berth::mount
