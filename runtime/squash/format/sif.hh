// SIF files of Apptainer and Singularity, as far as their root file system: a squashfs at an offset.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

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

}  // namespace berth::squash
