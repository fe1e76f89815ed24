// What a file server serves.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <shared_mutex>

#include "runtime/config/words.hh"
#include "runtime/mount/fuse/listing.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_log.hh"

namespace berth::mount {

class LateReads;

/// What is served: an image, from which programs start, or a data set, which is walked through and then read.
enum class ServedKind { image, data };

/// Shared by all threads of the server; but for `listing` it never changes.
///
/// What the index and the reader keep of it in memory does: `in_use` is held, shared, by whoever uses them.
struct Served {
    const squash::Index& index;
    squash::DataReader data;
    uid_t uid;  ///< owner of everything, as the mounting user namespace numbers it
    gid_t gid;
    plan::ImageModes modes;  ///< that it shows
    bool shows_marks = false;  ///< see ServerOptions
    ServedKind kind = ServedKind::image;
    mutable Listing listing{kind == ServedKind::data};
    mutable std::shared_mutex in_use = {};
    squash::ReadLog* reads = nullptr;  ///< null: none
    int prefetcher = -1;               ///< see ServerOptions
    pid_t guesser = 0;                 ///< see there
    std::atomic<uint32_t> first_reads = 0;  ///< that were not told to it
    pid_t sweeper = 0;                       ///< see ServerOptions
    std::atomic<uint32_t> files_read = 0;    ///< by others than that one, while it waits
    LateReads* late = nullptr;  ///< for reads of what has still to come; null: all is here
};

}  // namespace berth::mount
