// The answers of the file server: what each FUSE request for the image's tree is replied with.
#pragma once
#include <sys/types.h>

#include "runtime/mount/fuse/listing.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

struct fuse_lowlevel_ops;

namespace berth::mount {

/// What the server serves. Shared by all its threads; but for `listing` it never changes.
struct Served {
    const squash::Index& index;
    squash::DataReader data;
    uid_t uid;  ///< owner of everything, as the mounting user namespace numbers it
    gid_t gid;
    mutable Listing listing = {};
};

/// The operations, for a session whose user data is a `Served*`. Corrupt data is answered with EIO; nothing ever throws
/// into libfuse.
const fuse_lowlevel_ops& operations();

}  // namespace berth::mount
