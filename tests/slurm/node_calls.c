/* What users have of the kernel on the node, a line for each call: its name, and "ok" or the error. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static void say(const char* name, long result) { printf("%s: %s\n", name, result >= 0 ? "ok" : strerror(errno)); }

int main(void) {
    unsigned parameters[30] = {0};
    say("io_uring", syscall(SYS_io_uring_setup, 1, parameters));
    /* 1 is UFFD_USER_MODE_ONLY. */
    say("userfaultfd", syscall(SYS_userfaultfd, O_CLOEXEC | 1));
    say("userfaultfd of the kernel", syscall(SYS_userfaultfd, O_CLOEXEC));
    /* 0 is KEYCTL_GET_KEYRING_ID, -3 KEY_SPEC_SESSION_KEYRING. */
    say("keyctl", syscall(SYS_keyctl, 0, -3, 1, 0, 0));
    return 0;
}
