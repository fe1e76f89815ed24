#include "runtime/mount/upper.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::mount {

namespace {

std::string creating(const std::string& path) { return cat("creating /", printable(path, 4096), " in the container"); }

/// What this marks is faster looked up with the mark, and right without it: tmpfs takes such attributes from Linux 6.6 on.
void mark_opaque(int upper, const std::string& path) {
    Fd directory = sys::open_at(upper, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    ::fsetxattr(directory.get(), "user.overlay.opaque", "y", 1, 0);
}

void make_directory(const std::string& path, const UpperObject& object, int upper) {
    // Closed to others until it has its own mode, and open to this one, who fills it.
    if (::mkdirat(upper, path.c_str(), object.image != 0 ? 0700 : object.mode) != 0) throw SysError(creating(path));
    if (object.opaque) mark_opaque(upper, path);
}

void make_file(const std::string& path, const UpperObject& object, mode_t mode, int upper) {
    if (object.content.empty()) {
        if (::mknodat(upper, path.c_str(), S_IFREG | mode, 0) != 0) throw SysError(creating(path));
        return;
    }
    Fd fd = sys::open_at(upper, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    sys::write_all(fd.get(), object.content, cat("/", printable(path, 4096)));
}

/// The image's mode and time, which the directory had through the overlay as well.
void finish_directory(const std::string& path, const squash::InodeView& inode, int upper) {
    timespec times[2] = {{inode.mtime, 0}, {inode.mtime, 0}};
    if (::utimensat(upper, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 || ::fchmodat(upper, path.c_str(), inode.mode & 07777, 0) != 0)
        throw SysError(cat("preparing /", printable(path, 4096), " of the container"));
}

}  // namespace

void write_upper(const UpperLayer& layer, const squash::Index& index, int upper) {
    for (const auto& [path, object] : layer.objects) {
        if (object.kind == UpperObject::Kind::directory) make_directory(path, object, upper);
        if (object.kind == UpperObject::Kind::file)
            make_file(path, object, (object.image != 0 ? index.inode(object.image).value().mode : object.mode) & 07777, upper);
        if (object.kind == UpperObject::Kind::symlink && ::symlinkat(object.content.c_str(), upper, path.c_str()) != 0) throw SysError(creating(path));
    }
    for (auto place = layer.objects.rbegin(); place != layer.objects.rend(); ++place)
        if (place->second.kind == UpperObject::Kind::directory && place->second.image != 0)
            finish_directory(place->first, index.inode(place->second.image).value(), upper);
}

}  // namespace berth::mount
