#include "runtime/mount/fuse/preload.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include <algorithm>

#include "runtime/base/sys.hh"
#include "runtime/mount/fuse/served.hh"

namespace berth::mount {

namespace {

constexpr size_t piece = 128 << 10;

// A program's headers and most of what it needs to begin; the rest of a large one is read as it is used.
constexpr uint64_t limit = 1 << 20;

}  // namespace

/// True when more is to be stored.
bool Preload::store_next(fuse_session* session, Served& served) {
    auto file = served.index.file(inode_, at_, piece);
    if (!file) return false;
    uint64_t end = std::min(file->size, limit);
    if (at_ >= end) return false;
    if (!buffer_) {
        buffer_ = std::make_unique_for_overwrite<char[]>(piece);
        sys::make_present(buffer_.get(), piece);
    }
    long got = served.data.read(*file, at_, buffer_.get(), std::min<uint64_t>(end - at_, piece));
    if (got <= 0) return false;
    fuse_bufvec content = FUSE_BUFVEC_INIT(static_cast<size_t>(got));
    content.buf[0].mem = buffer_.get();
    if (fuse_lowlevel_notify_store(session, inode_, static_cast<off_t>(at_), &content, FUSE_BUF_NO_SPLICE) != 0)
        return false;
    at_ += static_cast<uint64_t>(got);
    return at_ < end;
}

bool Preload::store_piece(fuse_session* session, Served& served) noexcept {
    // The answer to the lookup is sent, but the kernel makes the inode of it in the thread that asked.
    begun_.wait(false);
    try {
        if (wanted_ && store_next(session, served)) return true;
    } catch (const std::exception&) {
        // Memory is short, or the index damaged: whoever reads the file finds out.
    }
    buffer_.reset();
    done_.set_value();
    return false;
}

}  // namespace berth::mount
