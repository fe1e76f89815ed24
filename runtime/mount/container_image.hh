// An image that is ready to be served.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_log.hh"
#include "runtime/store/hot_writer.hh"
#include "runtime/store/lease.hh"

namespace berth {

/// What its starts have read first, and what this one reads; see prefetch_list.hh.
struct ReadsOfImage {
    squash::PrefetchBytes known = {};            ///< to be read ahead; null: nothing
    std::shared_ptr<squash::ReadLog> log = {};   ///< null: none is kept
    std::function<void()> keep = {};             ///< does so, at the container's end; does not throw
};

/// What its starts have read as files of the node; see store/hot.hh.
struct HotImage {
    std::optional<store::HotFolder> folder = {};  ///< that the container has; none: there is none
    Fd hot = Fd();             ///< in which folders are; empty: none is written
    store::HotOrder order = {};  ///< for the next one; its descriptor is `hot`
};

struct ContainerImage {
    squash::Index index;     ///< of a directory: its config, and no files
    std::vector<Fd> layers;  ///< in the order of index.layers()
    store::Lease lease = {};
    /// Path of a root file system that is a directory of the node; empty for an image that is served. A path, since a
    /// mount namespace takes no mounts from descriptors of another one.
    std::string directory = {};
    /// Device and inode of the directory that was looked at; 0 and 0: any.
    std::pair<uint64_t, uint64_t> directory_identity = {};
    /// the root of a container that runs, see container_root(); then nothing is served, and the files are those of that
    /// container
    Fd root = Fd();
    ReadsOfImage reads = {};
    /// of the file, where a policy wants it signed: nothing else of it is used; null: it need not be
    std::shared_ptr<const squash::PartSums> sums = {};
    HotImage hot = {};
    squash::ComingLayers coming = {};  ///< where the image's layers have still to come
};

}  // namespace berth
