#include "runtime/base/error.hh"

#include <cerrno>
#include <cstring>

namespace berth {

Error::Error(const std::string& line, int exit_code) : std::runtime_error(line), exit_code_(exit_code) {}

SysError::SysError(const std::string& doing, int number) : SysError(number != 0 ? number : errno, doing) {}

SysError::SysError(int number, const std::string& doing) : Error(doing + ": " + reason(number)), number_(number) {}

std::string reason(int number) {
    if (number == EFBIG) return "File too large (for the file system, or for the limit that ulimit -f shows)";
    // The GNU form returns a string that needs no buffer for known numbers and is safe in threads.
    char buffer[128];
    return strerror_r(number, buffer, sizeof buffer);
}

}  // namespace berth
