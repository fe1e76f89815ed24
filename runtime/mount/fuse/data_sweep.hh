// A process beside a container that reads all small files of a data set once their reading has begun. Programs read
// them in random order, one after the other, and again and again: each time a request, for which a block may be
// unpacked that has sixteen of them. Read in the order in which they are stored, each block is unpacked once, requests
// need not be waited for, and names come with the listings of their directories.
#pragma once
#include <cstdint>
#include <functional>

#include "runtime/base/memory_room.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/squash/index/index.hh"

namespace berth::mount {

/// Files and directories from which on a data set is worth the process.
inline constexpr uint32_t worth_sweeping = 2000;

/// Starts the process, which waits; as start_prefetcher(). show_mount() gives it the root of the data set's mount.
IdleProcess start_data_sweep(const squash::Index& index, const std::function<void()>& confine);

/// Files that are read by others before a data set of `inodes` files and directories is swept: who reads a few of them
/// by chance shall not pay for all. Pure.
uint32_t reads_before_sweep(uint32_t inodes);

/// What the process does: has the kernel read all small files below `root`, where the index's tree is mounted, if they
/// are no more than a quarter of the memory that `room` says. Ends after `seconds` at the latest, or when memory is
/// short. Returns the bytes that the kernel was asked for.
uint64_t sweep(const squash::Index& index, int root, const std::function<MemoryRoom()>& room, unsigned seconds);

}  // namespace berth::mount
