// Writes a file in large pieces that go round the page cache.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>

#include "runtime/base/fd.hh"

namespace berth::squash {

/// A stored layer is written once, from its start to its end, and is as large as the caches of many a node: through the
/// page cache each byte would be copied, take a page from somebody else's files, and be waited for by the fsync at the
/// end all the same.
///
/// Collects what is written in a window of one piece; a write elsewhere moves the window. What was written is what is
/// read, through this object; through another descriptor only after flush(). Any thread may call. Functions return 0 or
/// an errno.
class DirectWriter {
  public:
    /// Null where the file system of `fd` (a regular file, open for reading and writing, which the caller owns) has no
    /// direct writes that are known to be worth it: ext4 and xfs have. Through others, file systems of a network first
    /// of all, it is their own cache that makes large requests.
    static std::unique_ptr<DirectWriter> over(int fd);
    /// Writes in large pieces whatever the file system, round the page cache where it lets us.
    explicit DirectWriter(int fd);

    int write(uint64_t offset, std::string_view data);
    int read(uint64_t offset, std::span<char> out);
    int flush();
    /// Flushes first.
    int resize(uint64_t size);
    /// All that was written below this offset is in the file.
    uint64_t flushed_below();

  private:
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };

    int move_to(uint64_t offset);
    int flush_piece();

    std::mutex mutex_;
    int fd_;
    Fd direct_;
    std::unique_ptr<char, Free> piece_;
    uint64_t start_ = 0;   ///< of the window, in the file; a multiple of `alignment`
    size_t filled_ = 0;    ///< bytes of it
    bool is_dirty_ = false;
};

}  // namespace berth::squash
