#include "runtime/mount/fuse/operations.hh"

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "runtime/base/thread_buffer.hh"
#include "runtime/mount/fuse/channel.hh"
#include "runtime/mount/fuse/data_sweep.hh"
#include "runtime/mount/fuse/late_reads.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/squash/index/shown_mode.hh"

namespace berth::mount {

namespace {

// The image never changes: the kernel may keep names (missing ones too) and attributes for as long as it likes.
constexpr double for_ever = 1e9;
constexpr unsigned block_size = 128 * 1024;
constexpr size_t name_limit = 255;
// The kernel keeps a link's target in one page.
constexpr size_t link_limit = 4095;

Served& served(fuse_req_t request) {
    return *static_cast<Served*>(fuse_req_userdata(request));
}

/// Runs one answer. `body` replies as its very last step, so that an exception always means that no reply was sent.
template <typename Body>
void answer(fuse_req_t request, fuse_ino_t number, Body body) {
    try {
        if (number > UINT32_MAX) {
            fuse_reply_err(request, ESTALE);
            return;
        }
        Served& at = served(request);
        std::shared_lock lock(at.in_use);
        body(at, static_cast<uint32_t>(number));
    } catch (...) {
        // Whatever is wrong is wrong with the image's data: the program that asked gets EIO, and the server goes on.
        fuse_reply_err(request, EIO);
    }
}

struct stat attributes(const Served& at, uint32_t number, const squash::InodeView& inode) {
    struct stat st {};
    st.st_ino = number;
    st.st_mode = squash::shown_mode(inode.mode, at.modes);
    st.st_nlink = inode.nlink;
    st.st_uid = at.uid;
    st.st_gid = at.gid;
    st.st_rdev = inode.rdev;
    st.st_size = static_cast<off_t>(inode.size);
    st.st_blksize = block_size;
    st.st_blocks = static_cast<blkcnt_t>((inode.size - at.index.hole_bytes(number) + 511) / 512);
    st.st_mtime = st.st_ctime = st.st_atime = inode.mtime;
    return st;
}

/// False when the index has no such inode.
bool fill(const Served& at, uint32_t number, fuse_entry_param& entry) {
    auto inode = at.index.inode(number);
    if (!inode) return false;
    entry.ino = number;
    entry.attr = attributes(at, number, *inode);
    entry.attr_timeout = entry.entry_timeout = for_ever;
    return true;
}

void init(void*, fuse_conn_info* connection) {
    connection->max_readahead = 1 << 20;
    connection->max_background = 64;
    connection->congestion_threshold = 48;
    unsigned wanted = FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_CACHE_SYMLINKS |
                      FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS | FUSE_CAP_ASYNC_READ;
    // READDIRPLUS_AUTO falls back to plain readdir, which costs a lookup a file later; AUTO_INVAL_DATA asks for
    // attributes that cannot have changed.
    connection->want = wanted & connection->capable;
}

/// Whether a process that guesses is to be told of a request: of others', and not of what every program reads.
bool is_told(const Served& at, fuse_req_t request) {
    return at.guesser != 0 && at.first_reads >= reads_before_guesses && fuse_req_ctx(request)->pid != at.guesser;
}

bool is_of_sweep(const Served& at, fuse_req_t request) {
    return at.sweeper != 0 && fuse_req_ctx(request)->pid == at.sweeper;
}

/// A file of a data set is read from its start: after so many, all are read ahead.
void count_file(Served& at, fuse_req_t request) {
    if (at.sweeper == 0 || is_of_sweep(at, request)) return;
    if (at.files_read.fetch_add(1) + 1 == reads_before_sweep(at.index.inode_count()))
        tell_prefetcher(at.prefetcher, true);
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
    answer(request, parent, [&](Served& at, uint32_t directory) {
        fuse_entry_param entry{};
        // Inode 0 tells the kernel to remember that the name is missing.
        entry.entry_timeout = for_ever;
        uint32_t number = at.index.lookup(directory, name);
        if (number != 0 && !fill(at, number, entry)) {
            fuse_reply_err(request, EIO);
            return;
        }
        if (number != 0 && !S_ISDIR(entry.attr.st_mode)) at.listing.looked_up(directory);
        if (number == 0 && at.reads != nullptr) at.reads->add_missing(directory, name);
        if (number == 0 && is_told(at, request)) tell_missing(at.prefetcher, directory, name);
        fuse_reply_entry(request, &entry);
    });
}

void getattr(fuse_req_t request, fuse_ino_t ino, fuse_file_info*) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        auto inode = at.index.inode(number);
        if (!inode) {
            fuse_reply_err(request, EIO);
            return;
        }
        struct stat st = attributes(at, number, *inode);
        fuse_reply_attr(request, &st, for_ever);
    });
}

void readlink(fuse_req_t request, fuse_ino_t ino) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        auto target = at.index.symlink_target(number);
        if (!target || target->empty() || target->size() > link_limit)
            fuse_reply_err(request, EIO);
        else
            fuse_reply_buf(request, target->data(), target->size());
    });
}

// ENOSYS is remembered by the kernel: no round trip for any later open, and the page cache is kept.
void open(fuse_req_t request, fuse_ino_t, fuse_file_info*) {
    fuse_reply_err(request, ENOSYS);
}

void forget(fuse_req_t request, fuse_ino_t, uint64_t) {
    fuse_reply_none(request);
}
void forget_multi(fuse_req_t request, size_t, fuse_forget_data*) {
    fuse_reply_none(request);
}

thread_local ThreadBuffer reply_buffer;

std::span<char> thread_buffer(size_t size) {
    size_t capacity = std::max<size_t>(size, block_size);
    return reply_buffer.get(capacity, capacity).first(size);
}

}  // namespace

void reply_with_bytes(Served& at, const ReadRequest& read, const std::function<bool()>& interrupted) {
    auto file = at.index.file(read.number, read.offset, read.size);
    if (!file) {
        fuse_reply_err(read.request, EIO);
        return;
    }
    std::span<char> buffer = thread_buffer(read.size);
    long got = at.data.read(*file, read.offset, buffer, interrupted);
    if (got < 0)
        fuse_reply_err(read.request, static_cast<int>(-got));
    else
        fuse_reply_buf(read.request, buffer.data(), static_cast<size_t>(got));
}

namespace {

void note_read(Served& at, uint32_t number, uint64_t offset, size_t size) {
    using Follows = squash::ReadLog::Follows;
    Follows follows = at.reads == nullptr ? Follows::unknown : at.reads->add(number, offset, size);
    if (follows != Follows::unknown && at.prefetcher >= 0) tell_prefetcher(at.prefetcher, follows == Follows::yes);
}

/// Whether it can be answered without waiting; true for what will be an error.
bool is_here(const Served& at, const ReadRequest& read) {
    auto file = at.index.file(read.number, read.offset, read.size);
    return !file || at.data.is_here(*file, read.offset, read.size);
}

void read(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        if (offset < 0) {
            fuse_reply_err(request, EIO);
            return;
        }
        at.listing.has_read();
        note_read(at, number, static_cast<uint64_t>(offset), size);
        if (is_told(at, request)) tell_read(at.prefetcher, number, static_cast<uint64_t>(offset));
        if (offset == 0) count_file(at, request);
        if (at.first_reads < reads_before_guesses) ++at.first_reads;
        ReadRequest wanted{request, number, static_cast<uint64_t>(offset), size, channel_in_use()};
        if (at.late != nullptr && !is_here(at, wanted))
            at.late->add(wanted);
        else
            reply_with_bytes(at, wanted, {});
    });
}

/// The overlay copies a file up, and cp copies it, without its holes if it is told of them.
void seek(fuse_req_t request, fuse_ino_t ino, off_t offset, int whence, fuse_file_info*) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        auto wanted = whence == SEEK_DATA ? squash::SeekFor::data : squash::SeekFor::hole;
        auto found = offset < 0 ? std::nullopt : at.index.seek(number, static_cast<uint64_t>(offset), wanted);
        if (found)
            fuse_reply_lseek(request, static_cast<off_t>(*found));
        else
            fuse_reply_err(request, ENXIO);
    });
}

/// The entry at `position` of the directory: "." and "..", then those of the index.
std::optional<squash::Entry> entry_at(const Served& at, uint32_t directory, uint32_t position) {
    if (position == 0) return squash::Entry{".", directory, S_IFDIR};
    if (position == 1) return squash::Entry{"..", at.index.parent(directory), S_IFDIR};
    return at.index.entry(directory, position - 2);
}

enum class Detail { name, name_and_directories, all };

/// Adds one entry to the reply; returns the bytes it needs, which are more than `out` has when it did not fit.
size_t add_entry(fuse_req_t request, const Served& at, std::span<char> out, const squash::Entry& found,
                 uint32_t position, Detail detail) {
    char name[name_limit + 1];
    memcpy(name, found.name.data(), found.name.size());
    name[found.name.size()] = '\0';
    if (detail == Detail::name) {
        struct stat st {};
        st.st_ino = found.inode;
        st.st_mode = found.mode;
        return fuse_add_direntry(request, out.data(), out.size(), name, &st, position + 1);
    }
    fuse_entry_param entry{};
    // The kernel looks "." and ".." up by itself, and without a number it makes no inode of anything else.
    bool whole = position >= 2 && (detail == Detail::all || S_ISDIR(found.mode)) && fill(at, found.inode, entry);
    if (!whole) entry.attr.st_ino = found.inode, entry.attr.st_mode = found.mode;
    return fuse_add_direntry_plus(request, out.data(), out.size(), name, &entry, position + 1);
}

void list(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, bool plus) {
    answer(request, ino, [&](Served& at, uint32_t directory) {
        if (offset == 0 && at.reads != nullptr) at.reads->add_listing(directory);
        bool tells_files = plus && (is_of_sweep(at, request) || at.listing.tells_files(directory));
        Detail detail = !plus ? Detail::name : tells_files ? Detail::all : Detail::name_and_directories;
        std::span<char> buffer = thread_buffer(size);
        size_t used = 0;
        uint64_t end = uint64_t{at.index.entry_count(directory)} + 2;
        for (auto position = static_cast<uint64_t>(offset); position < end; ++position) {
            auto found = entry_at(at, directory, static_cast<uint32_t>(position));
            if (!found || found->name.empty() || found->name.size() > name_limit) continue;
            size_t needed =
                add_entry(request, at, buffer.subspan(used), *found, static_cast<uint32_t>(position), detail);
            if (needed > size - used) break;
            used += needed;
        }
        fuse_reply_buf(request, buffer.data(), used);
    });
}

void readdir(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
    list(request, ino, size, offset, false);
}
void readdirplus(fuse_req_t request, fuse_ino_t ino, size_t size, off_t offset, fuse_file_info*) {
    list(request, ino, size, offset, true);
}

void statfs(fuse_req_t request, fuse_ino_t) {
    struct statvfs st {};
    st.f_bsize = st.f_frsize = block_size;
    st.f_files = served(request).index.inode_count();
    st.f_namemax = name_limit;
    fuse_reply_statfs(request, &st);
}

/// Replies with a value, or with its size when the caller's buffer has none.
void reply_sized(fuse_req_t request, std::string_view value, size_t size) {
    if (size == 0)
        fuse_reply_xattr(request, value.size());
    else if (value.size() > size)
        fuse_reply_err(request, ERANGE);
    else
        fuse_reply_buf(request, value.data(), value.size());
}

/// The kernel reads these of a lower directory (Documentation/filesystems/overlayfs.rst, "whiteouts and opaque
/// directories"), by their names and not from a list.
bool is_mark(std::string_view name) { return name == "user.overlay.opaque" || name == "user.overlay.whiteout"; }

void getxattr(fuse_req_t request, fuse_ino_t ino, const char* name, size_t size) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        // The overlay asks for its marks at every turn; ENOSYS ends that for the whole mount.
        if (!at.index.has_xattrs()) {
            fuse_reply_err(request, ENOSYS);
            return;
        }
        bool is_shown = squash::shows_xattr(name) || (at.shows_marks && is_mark(name));
        auto value = is_shown ? at.index.xattr(number, name) : std::nullopt;
        if (!value)
            fuse_reply_err(request, ENODATA);
        else
            reply_sized(request, *value, size);
    });
}

void listxattr(fuse_req_t request, fuse_ino_t ino, size_t size) {
    answer(request, ino, [&](Served& at, uint32_t number) {
        if (!at.index.has_xattrs()) {
            fuse_reply_err(request, ENOSYS);
            return;
        }
        std::string names;
        for (std::string_view name : at.index.xattr_names(number))
            if (squash::shows_xattr(name)) names.append(name).push_back('\0');
        reply_sized(request, names, size);
    });
}

}  // namespace

const fuse_lowlevel_ops& operations() {
    static const fuse_lowlevel_ops table = [] {
        fuse_lowlevel_ops ops{};
        ops.init = init;
        ops.lookup = lookup;
        ops.forget = forget;
        ops.forget_multi = forget_multi;
        ops.getattr = getattr;
        ops.readlink = readlink;
        ops.open = open;
        ops.opendir = open;
        ops.read = read;
        ops.lseek = seek;
        ops.readdir = readdir;
        ops.readdirplus = readdirplus;
        ops.statfs = statfs;
        ops.getxattr = getxattr;
        ops.listxattr = listxattr;
        return ops;
    }();
    return table;
}

}  // namespace berth::mount
