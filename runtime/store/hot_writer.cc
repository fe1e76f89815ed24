#include "runtime/store/hot_writer.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/remove_tree.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/read/hot_files.hh"

namespace berth::store {

namespace {

constexpr size_t piece_size = 1 << 20;
constexpr uint64_t share_left_free = 5;
constexpr const char* part_suffix = ".part";
/// In a partial folder: the file that is being written.
constexpr const char* unfinished = "file";
constexpr const char* marks_begun = "marks";

/// Thrown when there is no more time or memory.
struct Stopped {};

void check_written(bool good, const std::string& path) {
    if (!good) throw SysError(cat("writing ", printable(path, 4096)));
}

class Writing {
  public:
    Writing(const squash::HotFiles& wanted, const squash::Index& index, squash::DataReader& reader, int folder,
            const std::function<bool(uint64_t)>& goes_on)
        : wanted_(wanted), index_(index), reader_(reader), folder_(folder), goes_on_(goes_on), buffer_(piece_size) {}

    void run() {
        make_root();
        for (const squash::HotObject& directory : wanted_.directories)
            if (directory.path != ".")
                check_written(::mkdirat(root_.get(), directory.path.c_str(), 0700) == 0 || errno == EEXIST,
                              directory.path);
        for (const squash::HotObject& file : wanted_.files)
            if (!is_there(file)) S_ISLNK(file.mode) ? write_link(file) : write(file);
        mark_missing();
        // From below: a new name changes the time.
        for (auto directory = wanted_.directories.rbegin(); directory != wanted_.directories.rend(); ++directory)
            finish(*directory, sys::open_beneath(root_.get(), directory->path, O_RDONLY | O_DIRECTORY).get());
        put_manifest();
    }

  private:
    void make_root() {
        // What the store's folders hand down to new files is none of the image's.
        ::fremovexattr(folder_, "system.posix_acl_default");
        // Whoever had begun with the marks knew another list.
        if (::faccessat(folder_, marks_begun, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            sys::remove_tree(folder_, "root", "root");
        check_written(::mkdirat(folder_, "root", 0700) == 0 || errno == EEXIST, "root");
        root_ = sys::open_beneath(folder_, "root", O_RDONLY | O_DIRECTORY);
    }

    /// Written by an earlier process, which was killed.
    bool is_there(const squash::HotObject& file) const {
        struct stat st {};
        return ::fstatat(root_.get(), file.path.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && is_shown(st, file) &&
               static_cast<uint64_t>(st.st_size) == file.size;
    }

    static bool is_shown(const struct stat& st, const squash::HotObject& object) {
        return st.st_mode == object.mode && st.st_mtim.tv_sec == object.mtime && st.st_mtim.tv_nsec == 0 &&
               st.st_gid == ::getegid() && st.st_uid == ::geteuid();
    }

    void write(const squash::HotObject& file) {
        auto data = index_.file(file.inode);
        check_written(data.has_value(), file.path);
        check_written(::unlinkat(folder_, unfinished, 0) == 0 || errno == ENOENT, unfinished);
        Fd fd = sys::open_beneath(folder_, unfinished, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
        for (uint64_t at = 0; at < file.size;) {
            if (!goes_on_(std::min<uint64_t>(piece_size, file.size - at))) throw Stopped();
            long got = reader_.read(*data, at, buffer_);
            if (got <= 0)
                throw SysError(cat("reading ", printable(file.path, 4096)), got < 0 ? static_cast<int>(-got) : EIO);
            sys::write_all(fd.get(), {buffer_.data(), static_cast<size_t>(got)}, file.path);
            at += static_cast<uint64_t>(got);
        }
        // So that no program of the node has to wait for as much later.
        if (file.size >= piece_size) ::sync_file_range(fd.get(), 0, 0, SYNC_FILE_RANGE_WRITE);
        finish(file, fd.get());
        check_written(::renameat(folder_, unfinished, root_.get(), file.path.c_str()) == 0, file.path);
    }

    void write_link(const squash::HotObject& link) const {
        timespec times[2] = {{link.mtime, 0}, {link.mtime, 0}};
        check_written(::unlinkat(root_.get(), link.path.c_str(), 0) == 0 || errno == ENOENT, link.path);
        check_written(::symlinkat(link.target.c_str(), root_.get(), link.path.c_str()) == 0 &&
                          ::utimensat(root_.get(), link.path.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0,
                      link.path);
    }

    /// What the overlay shows as missing without asking the image, and as all that there is
    /// (Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories").
    void mark_missing() {
        Fd begun = sys::open_beneath(folder_, marks_begun, O_WRONLY | O_CREAT | O_NOFOLLOW, 0600);
        for (const std::string& path : wanted_.missing)
            if (::mknodat(root_.get(), path.c_str(), S_IFCHR, 0) == 0) marked_.push_back(path);
        for (const squash::HotObject& directory : wanted_.directories)
            if (directory.complete && directory.path != ".")
                check_written(::fsetxattr(sys::open_beneath(root_.get(), directory.path, O_RDONLY | O_DIRECTORY).get(),
                                          "user.overlay.opaque", "y", 1, 0) == 0,
                              directory.path);
    }

    /// Attributes come last: to write changes the time.
    static void finish(const squash::HotObject& object, int fd) {
        timespec times[2] = {{object.mtime, 0}, {object.mtime, 0}};
        check_written(::fchmod(fd, object.mode & 07777) == 0 && ::futimens(fd, times) == 0, object.path);
        if (!is_shown(sys::stat_of(fd, object.path), object))
            throw Error(cat("writing ", printable(object.path, 4096), ": the file system shows other attributes"));
    }

    void put_manifest() const {
        std::vector<std::string> paths = marked_;
        for (const auto* objects : {&wanted_.directories, &wanted_.files})
            for (const squash::HotObject& object : *objects) paths.push_back(object.path);
        Fd file = sys::open_beneath(folder_, "manifest", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
        sys::write_all(file.get(), hot_manifest(root_.get(), paths, wanted_.bytes), "a manifest");
    }

    const squash::HotFiles& wanted_;
    const squash::Index& index_;
    squash::DataReader& reader_;
    int folder_;
    const std::function<bool(uint64_t)>& goes_on_;
    Fd root_;
    std::vector<char> buffer_;
    std::vector<std::string> marked_;  ///< paths
};

struct Found {
    std::string name;
    uint64_t bytes = 0;  ///< on disk, at least
    int64_t used = 0;
};

/// What is kept of the key, and what might make room.
class Kept {
  public:
    explicit Kept(const HotOrder& order) : order_(order), prefix_(hot_prefix(order.key)) {
        for (const std::string& name : sys::list_directory(order.hot, "hot")) add(name);
        std::ranges::sort(others_, {}, &Found::used);
    }

    uint64_t bytes() const { return bytes_; }
    std::string next_name() const { return cat(prefix_, next_); }

    /// Removes folders that no start will use, then those whose last use is the longest ago, until there is room for so
    /// many bytes.
    bool make_room(uint64_t wanted) {
        for (const std::string& name : stale_) remove_hot(order_.hot, name);
        uint64_t sum = wanted;
        for (const Found& other : others_) sum += other.bytes;
        for (const Found& other : others_) {
            if (sum <= order_.limits.store) break;
            if (remove_hot(order_.hot, other.name)) sum -= other.bytes;
        }
        return sum <= order_.limits.store;
    }

  private:
    void add(const std::string& name) {
        Fd folder = sys::try_open_at(order_.hot, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (!folder) return;
        if (auto number = hot_number(name, prefix_)) {
            next_ = std::max(next_, *number + 1);
            bytes_ = std::max(bytes_, hot_bytes(folder.get()));
            stale_.push_back(name);
            return;
        }
        std::string boot = cat('.', order_.key.boot, '.'), key = prefix_.substr(0, prefix_.find(boot) + 1);
        if (name.starts_with(prefix_)) return;  // the partial one of this list
        if (name.find(boot) == name.npos || name.starts_with("gone.") || name.starts_with(key)) {
            stale_.push_back(name);
            return;
        }
        others_.push_back({name, name.ends_with(".part") ? order_.limits.image : hot_bytes(folder.get()),
                           int64_t{sys::stat_of(folder.get(), name).st_mtim.tv_sec}});
    }

    const HotOrder& order_;
    std::string prefix_;
    uint64_t next_ = 0, bytes_ = 0;
    std::vector<std::string> stale_;
    std::vector<Found> others_;
};

bool has_room(int hot, uint64_t bytes) {
    struct statvfs fs {};
    if (::fstatvfs(hot, &fs) != 0) return false;
    uint64_t free = fs.f_bavail * fs.f_frsize, all = fs.f_blocks * fs.f_frsize;
    return free > bytes && free - bytes >= all / share_left_free;
}

/// The folder to write into, locked; empty while another process does.
Fd partial_folder(int hot, const std::string& name) {
    check_written(::mkdirat(hot, name.c_str(), 0700) == 0 || errno == EEXIST, name);
    Fd folder = sys::open_beneath(hot, name, O_RDONLY | O_DIRECTORY);
    struct stat named {};
    // It may have been published or removed meanwhile.
    bool ours = ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0 &&
                ::fstatat(hot, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
                named.st_ino == sys::stat_of(folder.get(), name).st_ino;
    return ours ? std::move(folder) : Fd();
}

}  // namespace

void write_hot(const HotOrder& order, const squash::Index& index, squash::DataReader& reader,
               const squash::PrefetchList& list, const std::function<bool(uint64_t bytes)>& goes_on) try {
    if (!order.limits.wanted() || order.key.boot.empty() || !can_keep_hot(order.hot)) return;
    squash::HotFiles wanted =
        squash::hot_files(index, list, order.key.modes, std::min(order.limits.image, order.limits.store));
    Kept kept(order);
    if (wanted.files.empty() || !squash::is_worth_writing(kept.bytes(), wanted.bytes)) return;
    std::string name = kept.next_name(), part = name + part_suffix;
    if (!kept.make_room(wanted.bytes) || !has_room(order.hot, wanted.bytes)) return;
    Fd folder = partial_folder(order.hot, part);
    if (!folder) return;
    try {
        Writing(wanted, index, reader, folder.get(), goes_on).run();
        check_written(::renameat(order.hot, part.c_str(), order.hot, name.c_str()) == 0, name);
    } catch (const Error&) {
        sys::remove_tree(order.hot, part, part);
    }
} catch (const Stopped&) {
} catch (const Error&) {
    // Starts are as well without.
}

}  // namespace berth::store
