#include "runtime/mount/fuse/data_sweep.hh"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/mount/fuse/idle_process.hh"
#include "runtime/squash/read/list_places.hh"
#include "runtime/squash/read/small_files.hh"

namespace berth::mount {

namespace {

/// Of a data set that needs more, and would take too long, nothing is read.
constexpr uint64_t most_memory = 32ULL << 30;
constexpr unsigned sweep_seconds = 300;
constexpr uint32_t least_reads = 256, share_of_reads = 64;
/// Files of one list: so many that the tree is seldom gone through for the next, and the list is not large.
constexpr size_t list_files = 250'000;

using Clock = std::chrono::steady_clock;

/// Has the kernel bring all names of a directory with their inodes, also if it has the names alone, of a walk before.
void list_anew(const squash::ListPlaces& places, int root, uint32_t number) try {
    std::string path = places.path_of(number);
    if (path.empty()) return;
    Fd directory = sys::open_beneath_here(root, path, O_RDONLY | O_DIRECTORY);
    ::posix_fadvise(directory.get(), 0, 0, POSIX_FADV_DONTNEED);
    std::unique_ptr<char[]> buffer(new char[32 << 10]);
    while (::syscall(SYS_getdents64, directory.get(), buffer.get(), 32 << 10) > 0) continue;
} catch (const Error&) {
    // Its files are looked up one by one.
}

/// Goes through the files in their order.
class Sweep {
  public:
    Sweep(const squash::Index& index, int root, std::vector<uint32_t> files)
        : index_(index), root_(root), files_(std::move(files)), places_(index) {}

    bool is_over() const { return next_ == files_.size(); }

    /// The next files, and what their directories have of names before.
    squash::PrefetchList next(Clock::time_point until) {
        squash::PrefetchList out;
        uint64_t bytes = 0;
        for (; !is_over() && out.extents.size() < list_files; ++next_) {
            auto inode = index_.inode(files_[next_]);
            bytes += inode ? inode->size : 0;
            if (bytes > squash::prefetch_bytes) break;
            out.extents.push_back({files_[next_], 0, squash::largest_small_file / squash::prefetch_page});
            uint32_t directory = places_.place_of(files_[next_]).directory;
            if (directory != 0 && Clock::now() < until && listed_.insert(directory).second)
                list_anew(places_, root_, directory);
        }
        return out;
    }

  private:
    const squash::Index& index_;
    const int root_;
    const std::vector<uint32_t> files_;
    const squash::ListPlaces places_;
    size_t next_ = 0;
    std::unordered_set<uint32_t> listed_;
};

}  // namespace

uint32_t reads_before_sweep(uint32_t inodes) {
    return std::max(least_reads, inodes / share_of_reads);
}

uint64_t sweep(const squash::Index& index, int root, const std::function<MemoryRoom()>& room, unsigned seconds) {
    auto until = Clock::now() + std::chrono::seconds(seconds);
    MemoryRoom at_first = room();
    uint64_t quarter = std::min(at_first.limit.value_or(UINT64_MAX), at_first.left) / 4;
    squash::SmallFiles files = squash::small_files(index, std::min(quarter, most_memory));
    if (files.inodes.empty()) return 0;
    Sweep all(index, root, std::move(files.inodes));
    uint64_t done = 0;
    while (!all.is_over() && Clock::now() < until) {
        squash::PrefetchList list = all.next(until);
        auto left = std::chrono::duration_cast<std::chrono::seconds>(until - Clock::now());
        uint64_t bytes = read_ahead(index, list, root, room, static_cast<unsigned>(std::max<long>(left.count(), 0)));
        if (bytes == 0) break;
        done += bytes;
    }
    return done;
}

IdleProcess start_data_sweep(const squash::Index& index, const std::function<void()>& confine) {
    return start_idle_process({index.descriptor()}, confine, [&](int channel, int root, const NodeMemory& node) {
        char begin = 0;
        auto room = [&] { return node.room(); };
        if (::recv(channel, &begin, 1, 0) == 1) sweep(index, root, room, sweep_seconds);
    });
}

}  // namespace berth::mount
