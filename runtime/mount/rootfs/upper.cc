#include "runtime/mount/rootfs/upper.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/shown_mode.hh"

namespace berth::mount {

namespace {

std::string creating(const std::string& path) { return cat("creating /", printable(path, 4096), " in the container"); }

/// What this marks is faster looked up with the mark, and right without it: tmpfs takes such attributes from Linux 6.6
/// on.
void mark_opaque(int upper, const std::string& path) {
    Fd directory = sys::open_at(upper, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    ::fsetxattr(directory.get(), "user.overlay.opaque", "y", 1, 0);
}

/// The mode of an object that takes the place of one of the image is that one's.
mode_t mode_of(const UpperObject& object, const squash::Index& index, plan::ImageModes modes) {
    return (object.image != 0 ? squash::shown_mode(index.inode(object.image).value().mode, modes) : object.mode) &
           07777;
}

/// True when mkdir gives a directory this mode, and this process can fill it then.
bool is_made_whole(mode_t mode) { return (mode & 06700) == 0700; }

void make_directory(const std::string& path, const UpperObject& object, mode_t mode, int upper) {
    if (::mkdirat(upper, path.c_str(), is_made_whole(mode) ? mode : 0700) != 0) throw SysError(creating(path));
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
void finish_directory(const std::string& path, int64_t time, mode_t mode, int upper) {
    timespec times[2] = {{time, 0}, {time, 0}};
    if (::utimensat(upper, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0 ||
        (!is_made_whole(mode) && ::fchmodat(upper, path.c_str(), mode, 0) != 0))
        throw SysError(cat("preparing /", printable(path, 4096), " of the container"));
}

}  // namespace

void write_upper(const UpperLayer& layer, const squash::Index& index, plan::ImageModes modes, int upper) {
    for (const auto& [path, object] : layer.objects) {
        mode_t mode = mode_of(object, index, modes);
        if (object.kind == UpperObject::Kind::directory) make_directory(path, object, mode, upper);
        if (object.kind == UpperObject::Kind::file) make_file(path, object, mode, upper);
        if (object.kind == UpperObject::Kind::symlink && ::symlinkat(object.content.c_str(), upper, path.c_str()) != 0)
            throw SysError(creating(path));
    }
    for (auto place = layer.objects.rbegin(); place != layer.objects.rend(); ++place)
        if (place->second.kind == UpperObject::Kind::directory && place->second.image != 0)
            finish_directory(place->first, index.inode(place->second.image).value().mtime,
                             mode_of(place->second, index, modes), upper);
}

}  // namespace berth::mount
