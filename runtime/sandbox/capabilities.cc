#include "runtime/sandbox/capabilities.hh"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"

namespace berth::sandbox {

namespace {

void set_capabilities(uint64_t permitted, uint64_t effective, uint64_t inheritable = 0) {
    __user_cap_header_struct header{};
    header.version = _LINUX_CAPABILITY_VERSION_3;
    __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {};
    for (unsigned word = 0; word < _LINUX_CAPABILITY_U32S_3; ++word) {
        data[word].permitted = static_cast<uint32_t>(permitted >> (32 * word));
        data[word].effective = static_cast<uint32_t>(effective >> (32 * word));
        data[word].inheritable = static_cast<uint32_t>(inheritable >> (32 * word));
    }
    if (syscall(SYS_capset, &header, data) != 0) throw SysError("setting capabilities");
}

}  // namespace

namespace {

/// A user namespace gives its first process the whole set, so that one that must go tells of all. False when `bounding`
/// has them all.
bool is_limited_to(uint64_t bounding, uint64_t last) {
    unsigned long first = static_cast<unsigned long>(std::countr_one(bounding));
    return bounding == last && first < 64 && ::prctl(PR_CAPBSET_READ, first, 0, 0, 0) == 0;
}

}  // namespace

void limit_bounding_set(uint64_t bounding) {
    // A start comes here three times, the last time in the command's process, each with some forty calls.
    static std::atomic<uint64_t> last = ~uint64_t{0};
    if (is_limited_to(bounding, last)) return;
    // The kernel may know capabilities that these headers do not: it says where its list ends.
    for (unsigned long capability = 0;; ++capability) {
        if (capability < 64 && (bounding >> capability & 1) != 0) continue;
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
        if (errno == EINVAL) break;
        int number = errno;
        // Whoever may not drop one may have none of them.
        if (::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) != 0)
            throw SysError("emptying the capability bounding set", number);
    }
    last = bounding;
}

void drop_capabilities(uint64_t keep, uint64_t bounding) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        throw SysError("clearing the ambient capabilities");
    limit_bounding_set(bounding);
    set_capabilities(keep, 0);
}

void keep_capabilities(uint64_t kept) {
    drop_capabilities(kept, kept);
    set_capabilities(kept, kept, kept);
    for (unsigned long capability = 0; capability < 64; ++capability)
        if ((kept >> capability & 1) != 0 && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
            throw SysError("keeping a capability");
}

void raise_capabilities(uint64_t wanted, uint64_t kept) {
    set_capabilities(wanted | kept, wanted);
}

void forbid_new_privileges() {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) throw SysError("setting no_new_privs");
}

void become_private() {
    rlimit none{0, 0};
    if (::setrlimit(RLIMIT_CORE, &none) != 0 || ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        throw SysError("closing the process to others");
}

void reset_oom_score() {
    try {
        if (std::strtol(sys::read_file("/proc/self/oom_score_adj", 64).c_str(), nullptr, 10) >= 0) return;
        sys::write_all(sys::open_file("/proc/self/oom_score_adj", O_WRONLY).get(), "0", "oom_score_adj");
    } catch (const Error&) {
        // A node that hides the file loses the adjustment, not the start.
    }
}

}  // namespace berth::sandbox
