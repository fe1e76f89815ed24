// Decides what of a plan can be put into the upper layer of a container's overlay before it is mounted. The image's
// index tells what is where, so this takes no request to the file server; done through the overlay, each mount point
// costs one to five of them, and each account file a dozen.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/mount/rootfs/binds.hh"
#include "runtime/plan/plan.hh"
#include "runtime/squash/index/index.hh"

namespace berth::mount {

/// An object of the upper layer.
struct UpperObject {
    enum class Kind { directory, file, symlink };
    Kind kind = Kind::directory;
    uint32_t image = 0;    ///< the inode of the image that it stands for, whose mode and time it gets; 0: none
    uint32_t mode = 0755;  ///< permission bits, for one that stands for none
    bool opaque = false;   ///< a directory that does not show the image's, because something is mounted over it
    std::string content;   ///< of a file; the target of a symlink
};

struct UpperLayer {
    /// by path without the leading "/"; a directory comes before what is in it
    std::map<std::string, UpperObject> objects;
    std::set<size_t> done;                       ///< positions of the edits that need nothing more
};

/// What is known of a start besides its edits.
struct UpperFacts {
    const squash::Index& index;
    const std::vector<Source>& sources;  ///< of take_sources()
    /// the layer is written to an image at the end: then it may not hide what the image has
    bool saved = false;
    /// All of a small file of the image; `path` is for messages. Throws Error.
    std::function<std::string(const squash::FileData& file, const std::string& path)> read;
};

/// Mount points, directories, links and account files of `edits` that lie in plain directories of the image, or in new
/// ones. What does not (a symlink on the way, a place in another mount) is left to apply_edits(), as are all edits but
/// those in `done`; it then finds the mount points there. Pure but for `facts.read`. Throws what that throws.
UpperLayer upper_layer(const std::vector<plan::Edit>& edits, const UpperFacts& facts);

}  // namespace berth::mount
