// The answers of the file server: what each FUSE request for the image's tree is replied with.
#pragma once
#include "runtime/mount/fuse/served.hh"

struct fuse_lowlevel_ops;

namespace berth::mount {


/// The operations, for a session whose user data is a `Served*`. Corrupt data is answered with EIO; nothing ever throws
/// into libfuse.
const fuse_lowlevel_ops& operations();

}  // namespace berth::mount
