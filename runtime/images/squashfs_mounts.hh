// Squashfs files whose content a container has at paths of its own (plan::Mount::Kind::squashfs).
#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/file_stamp.hh"

namespace berth {

/// The directory of the served tree that has what is in the file. Overlays look each name of a root up that they list.
inline constexpr const char* squashfs_top = "data";

/// One that is ready to be served.
struct SquashfsFile {
    squash::Index index;
    std::vector<Fd> layers;                 ///< in the order of index.layers()
    std::vector<squash::FileStamp> stamps;  ///< of each of them
    bool is_layer = false;                  ///< lies over an image, see plan::Mount::layer
};

struct SquashfsMounts {
    std::vector<SquashfsFile> files;   ///< each once, however often it is mounted
    std::map<size_t, size_t> file_of;  ///< by the position of an edit; none for one that is optional and missing
};

/// Opens the file of each such edit as the caller sees it, and reads its tables. What was opened is compared with
/// policy.mount_sources and policy.image_owners, unless the site chose it. To be called in the node's user namespace,
/// where owners are known. Throws Error naming file, target and origin.
SquashfsMounts open_squashfs_mounts(const plan::Plan& plan, const plan::Site& site);

}  // namespace berth
