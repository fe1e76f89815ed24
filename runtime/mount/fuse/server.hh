// The file server of a container: threads of this process that answer the kernel's requests for the image's files.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/config/words.hh"
#include "runtime/mount/fuse/served.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_log.hh"

namespace berth::mount {

struct ServerOptions {
    uid_t uid = 0;  ///< owner of all files, as numbered in the present user namespace
    gid_t gid = 0;
    plan::ImageModes modes = plan::ImageModes::image;  ///< that it shows
    /// The attributes by which an overlay marks what it removes are shown to the overlay that lies over the mount.
    bool shows_marks = false;
    ServedKind kind = ServedKind::image;
    unsigned threads = 0;    ///< at most, but for the second one; 0: one a CPU this process may use, up to 8
    /// see busy_poll.hh; 0: a thread always sleeps until the next request comes
    std::chrono::microseconds busy_poll{100};
    size_t cache_bytes = 0;  ///< decompressed blocks kept
    squash::ComingLayers coming = {};  ///< reads of what has still to come wait, and others do not
    squash::Guards guards = {};  ///< of layer files that others may write to
    /// of what is read, and where to tell whether it is what its list has (see prefetcher.hh; -1: nowhere)
    std::shared_ptr<squash::ReadLog> reads = {};
    int prefetcher = -1;
    pid_t guesser = 0;  ///< that process, where it guesses: it is told what others read; 0: it has a list
    pid_t sweeper = 0;  ///< the process of start_data_sweep(), whose channel `prefetcher` is then; 0: there is none
    /// Called in the thread of the server when the mount is made, before its other threads start: gives up the
    /// privileges that only the mount needed.
    std::function<void()> confine;
};

/// Mounts the image on the directory `mount_point` (O_PATH) and serves it until the mount or the process ends; returns
/// when the mount is there. Call with CAP_SYS_ADMIN in the user namespace that owns the mount namespace. Throws Error
/// that names what stands in the way of /dev/fuse.
///
/// The server's threads have a descriptor table of their own, and /dev/fuse is opened only there. A thread that waits
/// for the server's answer cannot be killed before the answer or the end of the connection; the connection ends when
/// the last descriptor of /dev/fuse is closed; so no thread that may ever touch the mounted tree may hold one, or a
/// kill -9 would wait for ever.
void start_server(std::shared_ptr<const squash::Index> index, const std::vector<Fd>& layers,
                  const ServerOptions& options, int mount_point);

/// Makes the mount that start_server makes, with nobody to serve it, to see whether that is possible here: for a
/// process that ends soon. Throws the same.
void try_fuse(uid_t uid, gid_t gid, int mount_point);

/// Most threads for a setting of `configured` on `cpus` usable CPUs: two or more. Pure.
unsigned server_threads(unsigned configured, unsigned cpus);

}  // namespace berth::mount
