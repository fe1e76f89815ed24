#include "runtime/base/random_word.hh"

#include <sys/random.h>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/text.hh"

namespace berth {

std::string random_word() {
    unsigned char bytes[16];
    if (sys::uninterrupted([&] { return ::getrandom(bytes, sizeof bytes, 0); }) != static_cast<ssize_t>(sizeof bytes))
        throw SysError("getting a random number");
    return hex_text(bytes);
}

}  // namespace berth
