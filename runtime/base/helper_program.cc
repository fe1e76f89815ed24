#include "runtime/base/helper_program.hh"

#include <sys/stat.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

void check_helper_program(const std::string& program) {
    struct stat info {};
    if (::stat(program.c_str(), &info) != 0)
        throw SysError(cat("looking for the helper ", program, " (helper= in plugstack.conf)"));
    if (!S_ISREG(info.st_mode) || info.st_uid != 0 || (info.st_mode & 022) != 0)
        throw Error(
            cat("the helper ", program,
                " must be a file of root's that nobody else can write to; run chown root and chmod go-w on it"));
}

}  // namespace berth
