// A process beside a container that reads what earlier containers of the same image have read first, before its
// programs ask for it; or, where nothing is known of that, what they are likely to ask for (guess.hh). It does it as a
// program of the container would, over the mount: it has no part in serving, so that a kill ends it as any task.
#pragma once
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "runtime/base/memory_room.hh"
#include "runtime/mount/fuse/idle_process.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/prefetch_list.hh"

namespace berth::mount {

/// What else the process does with files of the image that are kept unpacked (store/hot.hh).
struct HotWork {
    int folder = -1;  ///< which the container has; -1: none
    /// Compares the folder with its manifest; null: not.
    std::function<void()> check = {};
    /// Writes what is in the list into a folder, as long as `goes_on`; null: not.
    using Write = void(const squash::PrefetchList& list, const std::function<bool(uint64_t bytes)>& goes_on);
    std::function<Write> write = {};
    std::vector<int> descriptors = {};  ///< that all of it needs
};

/// Starts the process, which waits for show_mount() and then for tell_prefetcher(). Without a list it guesses.
IdleProcess start_prefetcher(const squash::Index& index, const squash::PrefetchBytes& list,
                             const std::function<void()>& confine, const HotWork& hot = {});

/// Whether the container reads what is in the list, so that the process begins, or ends. Does not wait. `channel`: of
/// the process, in the table of the calling thread.
void tell_prefetcher(int channel, bool follows) noexcept;

/// For one that guesses: where the container reads, or which name it does not find. What the process does not take in
/// time is lost. Does not wait.
void tell_read(int channel, uint32_t inode, uint64_t offset) noexcept;
void tell_missing(int channel, uint32_t directory, std::string_view name) noexcept;

/// Tells it what the start has read, after which it guesses no more, and keeps these files unpacked (HotWork::write).
void tell_list(int channel, const squash::PrefetchList& list) noexcept;

/// Reads of a container that are not told, since every program begins with them.
inline constexpr uint32_t reads_before_guesses = 64;

/// Bytes that may be read ahead: a quarter of the memory that the control groups allow, and of what is left. Pure.
uint64_t prefetch_budget(const MemoryRoom& room);

/// Reads regular files of the index, as the list says and as far as its limits go, by way of `root`, where the image is
/// mounted: no other mount and no link is followed. Whatever the list, it ends after `seconds` at the latest, or when
/// `room` says that memory is short. What cannot be read is left out, and so is a file that is at the same place below
/// `hot`, which the container has in its place. Returns the bytes that the kernel was asked for.
uint64_t read_ahead(const squash::Index& index, const squash::PrefetchList& list, int root,
                    const std::function<MemoryRoom()>& room, unsigned seconds, int hot = -1);

}  // namespace berth::mount
