#include "runtime/base/access.hh"

#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::sys {

bool may_access(const std::string& path, int mode) {
    if (::access(path.c_str(), mode) == 0) return true;
    switch (errno) {
        case EACCES:
        case EINVAL:
        case ELOOP:
        case ENAMETOOLONG:
        case ENOENT:
        case ENOTDIR:
        case EPERM:
        case EROFS:
        case ETXTBSY:
            return false;
        default:
            throw SysError(cat("looking whether ", printable(path, 4096), " is there"));
    }
}

}  // namespace berth::sys
