// The answers of the file server: what each FUSE request for the image's tree is replied with.
#pragma once
#include <sys/types.h>

#include "runtime/mount/fuse/listing.hh"
#include "runtime/mount/fuse/preload.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

struct fuse_lowlevel_ops;

namespace berth::mount {

/// What the server serves. Shared by all its threads; but for `listing` and `preload` it never changes.
struct Served {
    const squash::Index& index;
    squash::DataReader data;
    uid_t uid;  ///< owner of everything, as the mounting user namespace numbers it
    gid_t gid;
    mutable Listing listing = {};
    std::shared_ptr<Preload> preload = {};
};

/// What has a preload that has become due by what the calling thread has just answered; null for nothing.
Served* take_due_preload();

/// The operations, for a session whose user data is a `Served*`. Corrupt data is answered with EIO; nothing ever throws
/// into libfuse.
const fuse_lowlevel_ops& operations();

}  // namespace berth::mount
