#include "runtime/base/remove_tree.hh"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sys {

namespace {

// No program of the container may have made such a name where it is moved to: it is looked for.
constexpr const char* moved = ".berth-remove-";

class Removal {
  public:
    Removal(int top, const std::string& what) : top_(top), what_(what) {}

    void run() {
        empty(".");
        while (!pending_.empty()) {
            std::string next = std::move(pending_.back());
            pending_.pop_back();
            empty(next);
            if (::unlinkat(top_, next.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail();
        }
    }

  private:
    [[noreturn]] void fail() const {
        int number = errno;
        throw SysError(cat("removing ", what_), number);
    }

    /// A directory of `parent`, made usable for its owner. No symlink is followed: the mode is changed through the
    /// descriptor.
    Fd opened(int parent, const std::string& name) const {
        Fd fd = open_at(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if ((stat_of(fd.get(), what_).st_mode & S_IRWXU) != S_IRWXU &&
            ::chmod(cat("/proc/self/fd/", fd.get()).c_str(), S_IRWXU) != 0)
            fail();
        return open_at(fd.get(), ".", O_RDONLY | O_DIRECTORY);
    }

    void empty(const std::string& name) {
        Fd directory = opened(top_, name);
        for (const std::string& entry : list_directory(directory.get(), what_)) {
            if (::unlinkat(directory.get(), entry.c_str(), 0) == 0 || errno == ENOENT) continue;
            if (errno != EISDIR && errno != EPERM) fail();
            if (::unlinkat(directory.get(), entry.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) continue;
            if (errno != ENOTEMPTY && errno != EEXIST && errno != EACCES) fail();
            if (name == ".")
                pending_.push_back(entry);
            else
                move_up(directory.get(), entry);
        }
    }

    void move_up(int directory, const std::string& entry) {
        // To move a directory is to write its "..".
        (void)opened(directory, entry);
        for (;; ++count_) {
            std::string name = cat(moved, count_);
            if (::renameat2(directory, entry.c_str(), top_, name.c_str(), RENAME_NOREPLACE) == 0) {
                pending_.push_back(name);
                return;
            }
            if (errno != EEXIST) fail();
        }
    }

    int top_;
    const std::string& what_;
    std::vector<std::string> pending_;  ///< directories in `top_` that still have things in them
    uint64_t count_ = 0;
};

}  // namespace

void remove_tree(int parent, const std::string& name, const std::string& what) {
    Fd top = open_if_exists(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (!top) return;
    if ((stat_of(top.get(), what).st_mode & S_IRWXU) != S_IRWXU &&
        ::chmod(cat("/proc/self/fd/", top.get()).c_str(), S_IRWXU) != 0)
        throw SysError(cat("removing ", what));
    Fd inside = open_at(top.get(), ".", O_RDONLY | O_DIRECTORY);
    Removal(inside.get(), what).run();
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) throw SysError(cat("removing ", what));
}

}  // namespace berth::sys
