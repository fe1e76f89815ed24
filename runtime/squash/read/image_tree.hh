// The tree of a file that is an image: a squashfs, or a SIF file with what its overlay partitions change.
#pragma once
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/squash/format/image_file.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"

namespace berth::squash {

struct ImageTree {
    Tree tree;
    std::vector<LayerInfo> layers;  ///< of the image and of the overlay partitions over it, all in the one file
    Extent place;                   ///< of the image, as find_squashfs() has it
};

/// Reads the file `fd`. Overlay partitions of a SIF file lie over one another as Apptainer mounts them: each over those
/// with descriptors before its own. Their marks of removed files are the overlay's (a character device 0:0, the
/// attributes user.overlay.whiteout and user.overlay.opaque). Throws what find_squashfs() and read_tree() throw, and
/// Error for an image with overlay partitions and files called .wh.NAME, which would be whiteouts. With `sums`, its
/// parts are the image's, and none of their bytes may have changed.
ImageTree read_image_file(int fd, const std::string& what, const TreeLimits& limits = {},
                          const PartSums* sums = nullptr);

/// `file` once for each of `count` layers. Throws SysError.
std::vector<Fd> for_each_layer(Fd file, size_t count);

}  // namespace berth::squash
