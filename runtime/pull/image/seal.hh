// The seal of a layer file, appended after the squashfs image, where no reader of squashfs looks. A layer is named
// after the tar stream it was made of, so without the seal nothing could tell damage of its bytes.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "runtime/squash/index/block_sums.hh"

namespace berth::pull {

/// Appends the seal to a finished file: `sums`, which are of its blocks, as they lie in memory on little-endian
/// machines, and a line of 128 bytes, "berth-seal 3 COUNT sha256:<hex>", blanks, a line end. The SHA-256 is of the
/// bytes that no block has, and of the sums; so a file is sealed without being read again. Throws SysError naming
/// `what`.
void seal_layer(int fd, const squash::BlockSums& sums, const std::string& what);

/// The sums in the seal of a layer file. Nothing when it has no seal of this form (one that an older berth made).
/// Throws Error when what is no block, the tables of the squashfs file among it, is not as it was when sealed: little
/// is read for that. SysError when it cannot be read.
std::optional<squash::BlockSums> read_seal(int fd, const std::string& what);

/// Told how many more bytes have been read.
using SealRead = std::function<void(uint64_t bytes)>;

enum class Seal {
    good,    ///< the file is as it was when sealed
    broken,  ///< it is not, or has no seal
    newer,   ///< of a newer release's form, which cannot be checked here
};

/// Throws SysError when the file cannot be read.
Seal seal_of(int fd, const std::string& what, const SealRead& read = {});

}  // namespace berth::pull
