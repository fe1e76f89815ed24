#include "runtime/mount/rootfs/skeleton.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

constexpr const char* skeleton = "/etc/skel";
// Dot files of shells are a few kB in a folder or two. An image must not make a start long.
constexpr size_t file_limit = 1 << 20, entries_limit = 1000;
constexpr int depth_limit = 8;

class Copy {
  public:
    void directory(int from, int to, int depth) {
        for (const std::string& name : sys::list_directory(from, skeleton)) {
            struct stat st {};
            if (++entries_ > entries_limit || ::fstatat(from, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return;
            if (S_ISREG(st.st_mode) && static_cast<size_t>(st.st_size) <= file_limit) file(from, to, name, st.st_mode);
            if (S_ISLNK(st.st_mode)) link(from, to, name);
            if (S_ISDIR(st.st_mode) && depth < depth_limit) below(from, to, name, depth);
        }
    }

  private:
    static void file(int from, int to, const std::string& name, mode_t mode) {
        Fd source = sys::open_at(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
        Fd target = sys::open_at(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, (mode & 0777) | 0600);
        sys::write_all(target.get(), sys::read_all(source.get(), file_limit, skeleton), "a file of a new home");
    }

    static void link(int from, int to, const std::string& name) {
        char text[PATH_MAX];
        ssize_t size = ::readlinkat(from, name.c_str(), text, sizeof text - 1);
        if (size < 0) throw SysError(cat("reading ", skeleton, " of the image"));
        text[size] = '\0';
        if (::symlinkat(text, to, name.c_str()) != 0) throw SysError("creating a link in a new home");
    }

    void below(int from, int to, const std::string& name, int depth) {
        if (::mkdirat(to, name.c_str(), 0755) != 0) throw SysError("creating a directory in a new home");
        Fd source = sys::open_at(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW),
           target = sys::open_at(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        directory(source.get(), target.get(), depth + 1);
    }

    size_t entries_ = 0;
};

}  // namespace

void copy_skeleton(const Root& root, int home) {
    Fd from;
    try {
        Fd place = root.open(skeleton, Missing::fails);
        // A folder of the node that is mounted there is not the image's.
        if (!root.owns(place.get())) return;
        from = sys::open_at(place.get(), ".", O_RDONLY | O_DIRECTORY);
    } catch (const SysError& error) {
        if (error.number() == ENOENT || error.number() == ENOTDIR) return;
        throw;
    }
    Copy().directory(from.get(), sys::open_at(home, ".", O_RDONLY | O_DIRECTORY).get(), 0);
}

}  // namespace berth::mount
