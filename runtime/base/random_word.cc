#include "runtime/base/random_word.hh"

#include <sys/random.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

std::string random_word() {
    unsigned char bytes[16];
    if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) throw SysError("making a secret");
    return hex_text(bytes);
}

}  // namespace berth
