// Writes the files that starts of an image read into a folder of the store (hot.hh).
#pragma once
#include <functional>

#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/prefetch_list.hh"
#include "runtime/store/hot.hh"

namespace berth::store {

/// Where it is written, and how much of it.
struct HotOrder {
    int hot = -1;  ///< the folder hot/ of the store
    HotKey key = {};
    HotLimits limits = {};
};

/// Writes what the list has, reading it from the layers, where no whole folder has about as much, the limits and the
/// file system allow it, a fifth of which stays free, and no other process does it. The folder appears by a rename.
/// What a killed one has left is gone on with. `goes_on` is asked before each piece of so many bytes: with false the
/// rest is left to the next call. What cannot be written leaves nothing; that is no error. To be called in the
/// container's user namespace, with a umask of 0.
void write_hot(const HotOrder& order, const squash::Index& index, squash::DataReader& reader,
               const squash::PrefetchList& list, const std::function<bool(uint64_t bytes)>& goes_on);

}  // namespace berth::store
