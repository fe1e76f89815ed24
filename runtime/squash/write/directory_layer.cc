#include "runtime/squash/write/directory_layer.hh"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"

namespace berth::squash {

namespace {

constexpr std::string_view whiteout_prefix = ".wh.";
constexpr std::string_view opaque_marker = ".wh..wh..opq";
constexpr std::string_view overlay_prefix = "user.overlay.";
constexpr size_t buffer_size = 1 << 20;
// A name that is another kind of object each time it is looked at.
constexpr int attempts = 5;

/// What the attributes of an object say: those to keep, and the overlay's marks.
struct Marks {
    std::map<std::string, std::string> kept;
    bool opaque = false;
    bool whiteout = false;
};

class DirectoryReader {
  public:
    DirectoryReader(LayerWriter& writer, int root, const DirectoryOptions& options, const std::string& what)
        : writer_(writer),
          root_(root),
          options_(options),
          what_(what),
          buffer_(buffer_size),
          names_(XATTR_LIST_MAX),
          value_(XATTR_SIZE_MAX) {}

    LeftOut read();

  private:
    struct Entry {
        int parent;  ///< open directory
        std::string name;
        std::string path;  ///< from the root of the layer
    };
    void directory(const std::string& path);
    bool skips(const struct stat& st, const std::string& path, int number);
    void closed_directory(const std::string& path, int number);
    void entry(const Entry& entry);
    bool file(const Entry& entry, const struct stat& seen);
    void whiteout(const Entry& entry);
    void symlink(const Entry& entry, const struct stat& st);
    void content(int fd, uint64_t size, const std::string& path);
    bool copy(int fd, uint64_t from, uint64_t to, const std::string& path);
    Marks marks_of(int fd, const std::string& path);
    Attributes attributes(const struct stat& st) const;
    [[noreturn]] void refuse(const std::string& path, const std::string& why) const;
    [[noreturn]] void fail(const std::string& path, int number) const;

    LayerWriter& writer_;
    int root_;
    const DirectoryOptions& options_;
    const std::string& what_;
    std::vector<char> buffer_;
    std::vector<char> names_, value_;  ///< of extended attributes
    std::deque<std::pair<std::string, unsigned>> pending_;  ///< directories still to be read, with their depth
    unsigned depth_ = 0;
    std::map<std::pair<dev_t, ino_t>, std::string> linked_;  ///< first names of files with several
    LeftOut left_out_;
};

LeftOut DirectoryReader::read() {
    pending_.emplace_back("", 0);
    // By path, not by recursion: neither the stack nor the number of descriptors grows with the depth.
    while (!pending_.empty()) {
        auto [path, depth] = std::move(pending_.front());
        pending_.pop_front();
        if (depth > TreeLimits{}.depth)
            refuse(path, cat("directories are nested more than ", TreeLimits{}.depth, " deep"));
        depth_ = depth;
        directory(path);
    }
    return std::move(left_out_);
}

void DirectoryReader::refuse(const std::string& path, const std::string& why) const {
    throw Error(cat("saving ", what_, ": /", printable(path, 1024), ": ", why));
}

void DirectoryReader::fail(const std::string& path, int number) const {
    const char* hint = number == EACCES || number == EPERM ? "; chmod u+r it in the container, or remove it" : "";
    refuse(path, reason(number) + hint);
}

void DirectoryReader::directory(const std::string& path) {
    Fd fd;
    try {
        fd = sys::open_beneath(root_, path.empty() ? "." : path, O_RDONLY | O_DIRECTORY);
    } catch (const SysError& error) {
        // Removed or replaced since its parent was read.
        if (error.number() == ENOENT || error.number() == ENOTDIR || error.number() == ELOOP) return;
        return closed_directory(path, error.number());
    }
    Attributes about = attributes(sys::stat_of(fd.get(), what_));
    Marks marks = marks_of(fd.get(), path);
    about.xattrs = std::move(marks.kept);
    writer_.add_directory(path, about);
    std::string below = path.empty() ? "" : path + "/";
    if (marks.opaque) {
        writer_.begin_file(below + std::string(opaque_marker), {.mode = 0});
        writer_.end_file();
    }
    for (const std::string& name : sys::list_directory(fd.get(), cat(what_, ": /", printable(path, 1024))))
        entry({fd.get(), name, below + name});
}

/// Whether an object of this `st` that could not be opened is left out; it counts then.
bool DirectoryReader::skips(const struct stat& st, const std::string& path, int number) {
    if (!options_.skips_unreadable || number != EACCES || st.st_uid == options_.uid) return false;
    if (left_out_.unreadable++ == 0) left_out_.first_unreadable = path;
    return true;
}

/// One that could not be opened: it is there without what is in it, or the layer fails.
void DirectoryReader::closed_directory(const std::string& path, int number) {
    Fd fd = sys::find_beneath(root_, path.empty() ? "." : path, O_PATH | O_DIRECTORY);
    if (!fd) return;
    struct stat st = sys::stat_of(fd.get(), what_);
    if (!skips(st, path, number)) fail(path, number);
    writer_.add_directory(path, attributes(st));
}

void DirectoryReader::entry(const Entry& entry) {
    if (entry.path.size() >= PATH_MAX) refuse(entry.path, "its path is longer than 4095 bytes");
    for (int attempt = 0; attempt < attempts; ++attempt) {
        struct stat st {};
        if (::fstatat(entry.parent, entry.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) return;
            fail(entry.path, errno);
        }
        if (entry.name.starts_with(whiteout_prefix))
            refuse(entry.path, "in an image this name means a removed file; rename it or remove it");
        if (S_ISREG(st.st_mode)) {
            if (!file(entry, st)) continue;
        } else if (S_ISDIR(st.st_mode)) {
            pending_.emplace_back(entry.path, depth_ + 1);
        } else if (S_ISLNK(st.st_mode)) {
            symlink(entry, st);
        } else if (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)) {
            writer_.add_special(entry.path, attributes(st), st.st_mode & S_IFMT);
        } else if (options_.overlay && S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0)) {
            whiteout(entry);
        } else {
            ++left_out_.devices;
        }
        return;
    }
    refuse(entry.path, "it changes faster than it can be read; try again when the container rests");
}

/// False when there is no file of that name any more.
bool DirectoryReader::file(const Entry& entry, const struct stat& seen) {
    Fd fd(::openat(entry.parent, entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd && (errno == ENOENT || errno == ELOOP || errno == ENXIO)) return false;
    if (int number = errno; !fd) {
        if (skips(seen, entry.path, number)) return true;
        fail(entry.path, number);
    }
    struct stat st = sys::stat_of(fd.get(), what_);
    if (!S_ISREG(st.st_mode)) return false;
    Marks marks = marks_of(fd.get(), entry.path);
    if (marks.whiteout && st.st_size == 0) {
        whiteout(entry);
        return true;
    }
    if (st.st_nlink > 1) {
        auto [first, is_new] = linked_.try_emplace({st.st_dev, st.st_ino}, entry.path);
        if (!is_new) {
            writer_.add_hardlink(entry.path, first->second);
            return true;
        }
    }
    Attributes about = attributes(st);
    about.xattrs = std::move(marks.kept);
    if (static_cast<uint64_t>(st.st_size) > largest_file)
        refuse(entry.path, "it is larger than 1 TiB; keep such data outside of the container");
    writer_.begin_file(entry.path, about, static_cast<uint64_t>(st.st_size));
    content(fd.get(), static_cast<uint64_t>(st.st_size), entry.path);
    writer_.end_file();
    return true;
}

/// Up to the size that the file had: one that grows would have no end.
void DirectoryReader::content(int fd, uint64_t size, const std::string& path) {
    for (uint64_t at = 0; at < size;) {
        off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
        if (data < 0) data = errno == ENXIO ? static_cast<off_t>(size) : static_cast<off_t>(at);
        uint64_t from = std::min(static_cast<uint64_t>(data), size);
        writer_.append_zeros(from - at);
        off_t hole = from < size ? ::lseek(fd, static_cast<off_t>(from), SEEK_HOLE) : -1;
        uint64_t to = hole < 0 ? size : std::min(static_cast<uint64_t>(hole), size);
        if (!copy(fd, from, to, path)) return;
        at = std::max(to, at + 1);
    }
}

/// False when the file has become shorter.
bool DirectoryReader::copy(int fd, uint64_t from, uint64_t to, const std::string& path) {
    while (from < to) {
        ssize_t got =
            ::pread(fd, buffer_.data(), std::min<uint64_t>(buffer_.size(), to - from), static_cast<off_t>(from));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail(path, errno);
        if (got == 0) return false;
        writer_.append({buffer_.data(), static_cast<size_t>(got)});
        from += static_cast<uint64_t>(got);
    }
    return true;
}

void DirectoryReader::symlink(const Entry& entry, const struct stat& st) {
    std::string target(PATH_MAX, '\0');
    ssize_t size = ::readlinkat(entry.parent, entry.name.c_str(), target.data(), target.size());
    if (size < 0 && (errno == ENOENT || errno == EINVAL)) return;
    if (size < 0) fail(entry.path, errno);
    target.resize(static_cast<size_t>(size));
    writer_.add_symlink(entry.path, attributes(st), target);
}

void DirectoryReader::whiteout(const Entry& entry) {
    std::string marker = cat(whiteout_prefix, entry.name);
    if (marker.size() > NAME_MAX)
        refuse(entry.path, "its removal cannot be said in an image, since its name is too long");
    writer_.begin_file(entry.path.substr(0, entry.path.size() - entry.name.size()) + marker, {.mode = 0});
    writer_.end_file();
}

Marks DirectoryReader::marks_of(int fd, const std::string& path) {
    Marks out;
    ssize_t size = ::flistxattr(fd, names_.data(), names_.size());
    if (size < 0 && errno == EOPNOTSUPP) return out;
    if (size < 0) fail(path, errno);
    for (const char* at = names_.data(); at < names_.data() + size; at += std::string_view(at).size() + 1) {
        std::string name = at;
        if (!name.starts_with("user.")) continue;
        ssize_t got = ::fgetxattr(fd, at, value_.data(), value_.size());
        if (got < 0 && errno == ENODATA) continue;
        if (got < 0) fail(path, errno);
        std::string text(value_.data(), static_cast<size_t>(got));
        if (!name.starts_with(overlay_prefix)) {
            out.kept.emplace(name, text);
        } else if (options_.overlay) {
            std::string mark = name.substr(overlay_prefix.size());
            if (mark == "redirect")
                refuse(path,
                       "the overlay has it as renamed in place (redirect_dir), which berth does not write; this "
                       "container was made by something else");
            if (mark == "metacopy")
                refuse(path,
                       "the overlay has its attributes without its data (metacopy), which berth does not write; this "
                       "container was made by something else");
            out.opaque |= mark == "opaque" && text == "y";
            out.whiteout |= mark == "whiteout";
        }
    }
    return out;
}

Attributes DirectoryReader::attributes(const struct stat& st) const {
    Attributes out;
    out.mode = st.st_mode & 07777;
    out.uid = st.st_uid == options_.uid ? 0 : st.st_uid;
    out.gid = st.st_gid == options_.gid ? 0 : st.st_gid;
    out.mtime = st.st_mtime;
    return out;
}

}  // namespace

LeftOut add_directory(LayerWriter& writer, int directory, const DirectoryOptions& options, const std::string& what) {
    return DirectoryReader(writer, directory, options, what).read();
}

}  // namespace berth::squash
