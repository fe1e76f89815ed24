#include "runtime/base/selinux.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::sys {

namespace {

std::string text_of(const char* path) {
    try {
        return read_file(path, 4096);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

std::string selinux_context() {
    return selinux_context(text_of("/proc/self/attr/current"), text_of("/sys/fs/selinux/enforce"));
}

std::string selinux_context(std::string_view current, std::string_view enforce) {
    std::string_view context = current.substr(0, current.find_first_of(std::string_view("\0\n", 2)));
    // user:role:type, mostly with a level. A profile of AppArmor has its mode behind a space.
    bool is_context = std::ranges::count(context, ':') >= 2 && context.find(' ') == context.npos;
    if (!is_context || enforce.starts_with('0')) return {};
    return printable(context, 256);
}

std::string selinux_hint(const std::string& what, const std::string& context) {
    if (context.empty()) return {};
    return cat("; SELinux forbids ", what, " to ", context, ": ausearch -m avc -ts recent has the denial");
}

}  // namespace berth::sys
