#include "runtime/base/old_lookup.hh"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"

namespace berth::sys::old {

namespace {

constexpr int link_limit = 40;

struct LookupError {
    int number;
};

/// The walk from the root to the last part; `directories_` are those on the way, so that `..` needs no look-up.
class Walk {
  public:
    Walk(int root, const std::string& path, bool beneath) : beneath_(beneath) {
        directories_.push_back(checked(::openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)));
        push(path);
    }

    Fd open(int flags, mode_t mode) {
        while (!todo_.empty()) {
            std::string part = std::move(todo_.front());
            todo_.pop_front();
            if (part == ".") continue;
            if (part == "..")
                up();
            else if (Fd last = step(part, flags, mode))
                return last;
        }
        return checked(
            ::openat(directories_.back().get(), ".", (flags & ~(O_NOFOLLOW | O_CREAT | O_EXCL)) | O_CLOEXEC));
    }

  private:
    static Fd checked(int fd) {
        if (fd < 0) throw LookupError{errno};
        return Fd(fd);
    }

    /// Puts the parts of `path` before those that are left.
    void push(const std::string& path) {
        if (path.empty()) throw LookupError{ENOENT};
        if (path[0] == '/' && beneath_) throw LookupError{EXDEV};
        if (path[0] == '/') directories_.resize(1);
        std::deque<std::string> parts;
        for (std::string& part : split(path, '/'))
            if (!part.empty() && part != ".") parts.push_back(std::move(part));
        // With this the part before is not the last one: it must be a directory, and a link is followed.
        if (!parts.empty() && (path.ends_with('/') || path.ends_with("/."))) parts.push_back(".");
        todo_.insert(todo_.begin(), parts.begin(), parts.end());
    }

    void up() {
        if (directories_.size() > 1) return directories_.pop_back();
        if (beneath_) throw LookupError{EXDEV};
    }

    /// The object when `part` was the last one and is no link to follow.
    Fd step(const std::string& part, int flags, mode_t mode) {
        int directory = directories_.back().get();
        bool last = todo_.empty();
        Fd object(::openat(directory, part.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!object && (errno != ENOENT || !last || (flags & O_CREAT) == 0)) throw LookupError{errno};
        struct stat st {};
        if (object && ::fstat(object.get(), &st) != 0) throw LookupError{errno};
        bool link = object && S_ISLNK(st.st_mode);
        if (link && !(last && (flags & O_NOFOLLOW) != 0 && (flags & O_PATH) != 0)) {
            follow(object.get(), last && (flags & (O_NOFOLLOW | O_EXCL)) != 0);
            return {};
        }
        if (last) return checked(::openat(directory, part.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode));
        if (!S_ISDIR(st.st_mode)) throw LookupError{ENOTDIR};
        directories_.push_back(std::move(object));
        return {};
    }

    void follow(int link, bool refused) {
        struct statfs fs {};
        if (::fstatfs(link, &fs) != 0) throw LookupError{errno};
        // Some links of /proc lead wherever a process is, and which cannot be told.
        if (refused || beneath_ || fs.f_type == PROC_SUPER_MAGIC || ++links_ > link_limit) throw LookupError{ELOOP};
        char text[PATH_MAX];
        ssize_t size = ::readlinkat(link, "", text, sizeof text);
        if (size < 0) throw LookupError{errno};
        push({text, static_cast<size_t>(size)});
    }

    bool beneath_;
    std::vector<Fd> directories_;
    std::deque<std::string> todo_;
    int links_ = 0;
};

}  // namespace

int open_inside(int root, const std::string& path, int flags, mode_t mode, bool beneath) {
    try {
        return Walk(root, path, beneath).open(flags, mode).release();
    } catch (const LookupError& error) {
        errno = error.number;
        return -1;
    }
}

}  // namespace berth::sys::old
