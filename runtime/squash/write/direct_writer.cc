#include "runtime/squash/write/direct_writer.hh"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "runtime/base/interrupts.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

/// Of offsets, sizes and memory: that of a page covers all block devices in use; where it does not, the first write
/// says EINVAL.
constexpr size_t alignment = 4096;
constexpr size_t piece_size = 1 << 20;

int write_all(int fd, uint64_t offset, std::string_view data) {
    while (!data.empty()) {
        ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        data.remove_prefix(static_cast<size_t>(n)), offset += static_cast<uint64_t>(n);
    }
    return 0;
}

int read_all(int fd, uint64_t offset, std::span<char> out) {
    while (!out.empty()) {
        ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        out = out.subspan(static_cast<size_t>(n)), offset += static_cast<uint64_t>(n);
    }
    return 0;
}

bool is_worth_it(int fd) {
    struct statfs system {};
    return ::fstatfs(fd, &system) == 0 && (system.f_type == EXT4_SUPER_MAGIC || system.f_type == XFS_SUPER_MAGIC);
}

}  // namespace

std::unique_ptr<DirectWriter> DirectWriter::over(int fd) {
    return is_worth_it(fd) ? std::make_unique<DirectWriter>(fd) : nullptr;
}

// A description of its own: the caller's descriptor goes on through the page cache.
DirectWriter::DirectWriter(int fd)
    : fd_(fd),
      direct_(::open(cat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC)),
      piece_(static_cast<char*>(std::aligned_alloc(alignment, piece_size))) {
    if (piece_ == nullptr) throw std::bad_alloc();
}

int DirectWriter::write(uint64_t offset, std::string_view data) {
    std::lock_guard lock(mutex_);
    while (!data.empty()) {
        if (offset < start_ || offset > start_ + filled_ || offset >= start_ + piece_size)
            if (int error = move_to(offset)) return error;
        size_t at = offset - start_;
        size_t part = std::min(data.size(), piece_size - at);
        std::memcpy(piece_.get() + at, data.data(), part);
        filled_ = std::max(filled_, at + part);
        is_dirty_ = true;
        data.remove_prefix(part), offset += part;
    }
    return 0;
}

int DirectWriter::read(uint64_t offset, std::span<char> out) {
    std::lock_guard lock(mutex_);
    while (!out.empty()) {
        size_t part = out.size();
        if (offset >= start_ && offset < start_ + filled_) {
            part = std::min(part, start_ + filled_ - offset);
            std::memcpy(out.data(), piece_.get() + (offset - start_), part);
        } else {
            if (offset < start_) part = std::min(part, start_ - offset);
            if (int error = read_all(fd_, offset, out.first(part))) return error;
        }
        out = out.subspan(part), offset += part;
    }
    return 0;
}

int DirectWriter::flush() {
    std::lock_guard lock(mutex_);
    return flush_piece();
}

uint64_t DirectWriter::flushed_below() {
    std::lock_guard lock(mutex_);
    return is_dirty_ ? start_ : start_ + filled_;
}

int DirectWriter::resize(uint64_t size) {
    std::lock_guard lock(mutex_);
    if (int error = flush_piece()) return error;
    if (sys::uninterrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(size)); }) != 0) return errno;
    if (size < start_) start_ = filled_ = 0;
    filled_ = std::min(filled_, static_cast<size_t>(size - start_));
    return 0;
}

/// Puts a window around `offset`, with what the file has in front of it there.
int DirectWriter::move_to(uint64_t offset) {
    if (int error = flush_piece()) return error;
    uint64_t start = offset / alignment * alignment;
    size_t before = offset - start;
    if (before > 0)
        if (int error = read_all(fd_, start, {piece_.get(), before})) return error;
    start_ = start, filled_ = before;
    return 0;
}

/// The end of a file is seldom aligned: that part goes through the page cache.
int DirectWriter::flush_piece() {
    if (!is_dirty_) return 0;
    size_t aligned = direct_ ? filled_ / alignment * alignment : 0;
    if (aligned > 0) {
        int error = write_all(direct_.get(), start_, {piece_.get(), aligned});
        if (error != 0 && error != EINVAL) return error;
        if (error == EINVAL) direct_.reset(), aligned = 0;
    }
    if (int error = write_all(fd_, start_ + aligned, {piece_.get() + aligned, filled_ - aligned})) return error;
    is_dirty_ = false;
    return 0;
}

}  // namespace berth::squash
