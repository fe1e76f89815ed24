// SIF files of Apptainer and Singularity: their root file system, a squashfs at an offset, and what else is in them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/squash/format/sif_format.hh"

namespace berth::squash {

/// Bytes of a file.
struct Extent {
    uint64_t offset = 0;
    uint64_t size = 0;
};

/// True when the file starts as a SIF file does.
bool is_sif(int fd);

/// The primary system partition of the SIF file `fd`, which is a squashfs. Throws Error naming `what` when there is
/// none, when it is of another kind or encrypted, or when the descriptors are not within the file. Format:
/// github.com/sylabs/sif, version 01.
Extent find_sif_partition(int fd, const std::string& what);

/// Its overlay partitions, which are squashfs too, the lowest first: those of the group of the system partition, in the
/// order of their descriptors, as Apptainer takes them (pkg/image/sif.go). Throws Error as above, and for one of
/// another kind.
std::vector<Extent> find_sif_overlays(int fd, const std::string& what);

/// A SIF file's header, and the descriptors of what is in it.
struct SifObjects {
    sif::Header header;
    std::vector<sif::Descriptor> used;  ///< in the order of the file
};

/// The partitions of which an image is made, as the two functions above choose them: that of the system first. Throws
/// Error naming `what` as they do.
std::vector<sif::Descriptor> sif_image_parts(const SifObjects& objects, const std::string& what);

/// All of them; each object is within the file. Throws Error naming `what` for what is no SIF file.
SifObjects read_sif(int fd, const std::string& what);

}  // namespace berth::squash
