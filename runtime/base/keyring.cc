#include "runtime/base/keyring.hh"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"

namespace berth::sys {

namespace {

// KEY_POS_ALL and KEY_USR_ALL of the kernel's linux/key.h: what joins it later searches for it as its owner.
constexpr long all_of_the_owner = 0x3f3f0000;

long keyctl(long operation, long first, long second) { return ::syscall(SYS_keyctl, operation, first, second, 0, 0); }

}  // namespace

void join_own_session_keyring() {
    // By a name, so that the tasks of a node share one: the kernel lets a user have 200 keys.
    if (keyctl(KEYCTL_JOIN_SESSION_KEYRING, reinterpret_cast<long>("berth"), 0) < 0) {
        if (errno == EPERM || errno == ENOSYS) return;
        throw SysError("giving the container a session keyring of its own (kernel.keys.maxkeys limits a user's keys)");
    }
    keyctl(KEYCTL_SETPERM, KEY_SPEC_SESSION_KEYRING, all_of_the_owner);
    // As a login does: what a program keeps for its user is found again by the next one.
    keyctl(KEYCTL_LINK, KEY_SPEC_USER_KEYRING, KEY_SPEC_SESSION_KEYRING);
}

}  // namespace berth::sys
