// The output file as libsquashfs wants it, over a descriptor of ours, so that the reason of a failed write is not lost.
#pragma once
#include <sqfs/error.h>
#include <sqfs/io.h>
#include <sqfs/predef.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/squash/write/direct_writer.hh"

namespace berth::squash {

struct SqfsDestroy {
    void operator()(void* object) const { sqfs_destroy(object); }
};
/// Owner of a libsquashfs object.
template <typename T>
using SqfsPtr = std::unique_ptr<T, SqfsDestroy>;

/// A sqfs_file_t that keeps the errno of its first failure to itself until check(): libsquashfs would only say "I/O
/// error", and it leaks the blocks in flight when a write fails. After a failure nothing is read or written any more.
/// Does not own the descriptor. What is written round the page cache is in the file after flush().
class OutputFile : public sqfs_file_t {
  public:
    /// `what` names the file in errors; empty where whoever calls adds a name. All offsets count from `start`.
    explicit OutputFile(int fd, std::string what = {}, uint64_t start = 0);
    /// From now on writes round the page cache where that is worth it; nobody else may write to the descriptor until
    /// flush(). For a file whose start is 0.
    void write_directly() { direct_ = DirectWriter::over(fd_); }
    /// Told how many bytes from the start of the file will stay as they are, and can be read through another
    /// descriptor; never fewer than before. `told` may be called by any thread that writes.
    void on_final(std::function<void(uint64_t)> told) { told_ = std::move(told); }
    /// What is below `offset` is not written to again (but for the superblock).
    void note_final(uint64_t offset);
    /// To be followed by check().
    void flush();
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;

    uint64_t size() const { return size_; }

    /// To be called with the result of each libsquashfs call. Throws SysError when the file has failed, and Error when
    /// `code` is a failure.
    void check(int code, const char* doing = "writing a squashfs file") const;

  private:
    int read(uint64_t offset, void* buffer, size_t size);
    int write(uint64_t offset, const void* buffer, size_t size);
    int resize(uint64_t size);
    void fail(int number);

    int fd_;
    std::string what_;
    uint64_t start_;
    std::unique_ptr<DirectWriter> direct_;
    std::function<void(uint64_t)> told_;
    uint64_t size_ = 0;
    std::atomic<int> error_ = 0;
};

}  // namespace berth::squash
