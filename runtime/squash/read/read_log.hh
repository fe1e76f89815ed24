// Which parts of which files a container reads first, and whether it reads what earlier ones have read.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/squash/read/prefetch_list.hh"

namespace berth::squash {

/// Safe to use from many threads.
class ReadLog {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Follows { unknown, yes, no };

    /// `known` is what earlier starts have read. What is read later than `until` is left out.
    explicit ReadLog(PrefetchBytes known, Clock::time_point until = Clock::time_point::max())
        : known_(std::move(known)), until_(until) {}

    /// Notes a read of bytes of a file. Returns `yes` or `no` once: with the read by which it is known whether the
    /// container reads what is in the list, if there is one; `unknown` with all others.
    Follows add(uint32_t inode, uint64_t offset, uint64_t size);

    /// Notes that a directory was listed from its start, and that it does not have a name.
    void add_listing(uint32_t directory);
    void add_missing(uint32_t directory, std::string_view name);

    PrefetchReads reads() const;
    /// Whether there were so many reads.
    bool is_decided() const;

    /// Reads after which it is decided. Few programs that read little else than themselves and a C library get so far.
    static constexpr uint32_t deciding = 128;

  private:
    void note(uint32_t inode, uint64_t offset, uint64_t size);
    bool reads_what_is_known() const;

    mutable std::mutex mutex_;
    PrefetchBytes known_;
    std::vector<uint32_t> first_;  ///< inodes of the reads by which it is decided
    Clock::time_point until_;
    bool takes_more() const { return reads_of_start_.extents.size() < prefetch_extents && Clock::now() <= until_; }

    PrefetchReads reads_of_start_;
    std::unordered_map<uint32_t, size_t> last_;  ///< inode -> its last extent
};

}  // namespace berth::squash
