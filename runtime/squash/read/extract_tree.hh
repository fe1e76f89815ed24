// Writes the tree of an image into a directory, for nodes where nothing can be mounted through FUSE.
#pragma once
#include <functional>
#include <string>

#include "runtime/config/words.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

namespace berth::squash {

/// Told how many bytes of how many have been written; called by any of several threads, one at a time.
using ExtractWatch = std::function<void(uint64_t done, uint64_t total)>;

/// Writes all of `index`, whose files `reader` reads, into the empty directory `directory`, with their times, as the
/// caller's own; the modes are those that containers show by `modes`. Names of one inode become hard links; xattrs are
/// those that a container sees (`shows_xattr`); devices are left out, since no container may use them. `threads` write
/// at a time. Throws Error naming `what` when something cannot be read or written: the directory is then good for
/// nothing.
void extract_tree(const Index& index, DataReader& reader, int directory, unsigned threads, const std::string& what,
                 const ExtractWatch& watch = {}, plan::ImageModes modes = plan::ImageModes::image);

}  // namespace berth::squash
