#include "runtime/squash/write/writer_file.hh"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

const char* words(int code) {
    switch (code) {
        case SQFS_ERROR_ALLOC:
            return "out of memory";
        case SQFS_ERROR_COMPRESSOR:
            return "the compressor failed";
        case SQFS_ERROR_OVERFLOW:
            return "a table of the format is full";
        case SQFS_ERROR_UNSUPPORTED:
            return "the installed libsquashfs lacks a feature (zstd?)";
        default:
            return "libsquashfs failed";
    }
}

}  // namespace

OutputFile::OutputFile(int fd, std::string what, uint64_t start)
    : sqfs_file_t{}, fd_(fd), what_(std::move(what)), start_(start) {
    base.destroy = [](sqfs_object_t*) {};
    read_at = [](sqfs_file_t* file, sqfs_u64 offset, void* buffer, size_t size) {
        return static_cast<OutputFile*>(file)->read(offset, buffer, size);
    };
    write_at = [](sqfs_file_t* file, sqfs_u64 offset, const void* buffer, size_t size) {
        return static_cast<OutputFile*>(file)->write(offset, buffer, size);
    };
    get_size = [](const sqfs_file_t* file) {
        return static_cast<sqfs_u64>(static_cast<const OutputFile*>(file)->size());
    };
    truncate = [](sqfs_file_t* file, sqfs_u64 size) { return static_cast<OutputFile*>(file)->resize(size); };
}

void OutputFile::check(int code, const char* doing) const {
    int number = error_.load();
    if (number == 0 && code == 0) return;
    std::string problem = what_.empty() ? doing : cat("writing ", what_, ": ", doing);
    if (number != 0) throw SysError(problem, number);
    throw Error(cat(problem, ": ", words(code), " (libsquashfs error ", code, ")"));
}

void OutputFile::fail(int number) {
    int none = 0;
    error_.compare_exchange_strong(none, number);
}

void OutputFile::flush() {
    if (direct_ == nullptr || error_ != 0) return;
    if (int number = direct_->flush()) fail(number);
}

void OutputFile::note_final(uint64_t offset) {
    if (!told_ || error_ != 0) return;
    told_(direct_ != nullptr ? std::min(offset, direct_->flushed_below()) : offset);
}

int OutputFile::read(uint64_t offset, void* buffer, size_t size) {
    auto* out = static_cast<char*>(buffer);
    if (direct_ != nullptr && error_ == 0) {
        int number = direct_->read(offset, {out, size});
        if (number == 0) return 0;
        fail(number);
    }
    while (size > 0 && error_ == 0) {
        ssize_t n = ::pread(fd_, out, size, static_cast<off_t>(start_ + offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            fail(n < 0 ? errno : EIO);
            break;
        }
        out += n, offset += static_cast<uint64_t>(n), size -= static_cast<size_t>(n);
    }
    std::memset(out, 0, size);
    return 0;
}

int OutputFile::write(uint64_t offset, const void* buffer, size_t size) {
    auto* in = static_cast<const char*>(buffer);
    size_ = std::max(size_, offset + size);
    if (direct_ != nullptr && error_ == 0) {
        if (int number = direct_->write(offset, {in, size})) fail(number);
        return 0;
    }
    while (size > 0 && error_ == 0) {
        ssize_t n = ::pwrite(fd_, in, size, static_cast<off_t>(start_ + offset));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            fail(n < 0 ? errno : EIO);
            break;
        }
        in += n, offset += static_cast<uint64_t>(n), size -= static_cast<size_t>(n);
    }
    return 0;
}

int OutputFile::resize(uint64_t size) {
    size_ = size;
    if (error_ != 0) return 0;
    if (direct_ != nullptr) {
        if (int number = direct_->resize(size)) fail(number);
    } else if (sys::uninterrupted([&] { return ::ftruncate(fd_, static_cast<off_t>(start_ + size)); }) != 0) {
        fail(errno);
    }
    return 0;
}

}  // namespace berth::squash
