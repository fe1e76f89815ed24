// What a file server serves.
#pragma once
#include <sys/types.h>

#include <memory>

#include "runtime/mount/fuse/listing.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

namespace berth::mount {

class Preload;

/// Shared by all threads of the server; but for `listing` and `preload` it never changes.
struct Served {
    const squash::Index& index;
    squash::DataReader data;
    uid_t uid;  ///< owner of everything, as the mounting user namespace numbers it
    gid_t gid;
    mutable Listing listing = {};
    std::shared_ptr<Preload> preload = {};
};

}  // namespace berth::mount
