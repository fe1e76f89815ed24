#include "runtime/base/descriptors.hh"

#include <fcntl.h>
#include <seccomp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/pid.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

using namespace berth;

namespace {

bool is_null(int fd) {
    struct stat st {}, null {};
    return ::fstat(fd, &st) == 0 && ::stat("/dev/null", &null) == 0 && S_ISCHR(st.st_mode) &&
           st.st_rdev == null.st_rdev;
}

/// What a child says of its descriptors by its exit code.
template <typename Work>
int in_child(Work work) {
    Pid child(fixtures::forked());
    if (child.get() == 0) ::_exit(work());
    return child.wait();
}

/// From here on the kernel has no close_range(2), as one older than 5.9.
bool forget_close_range() {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    return filter != nullptr &&
           seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(close_range), 0) == 0 && seccomp_load(filter) == 0;
}

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

/// 0 when sys::close_range() closes what is in the range and nothing else. Enough descriptors for several reads of
/// /proc/self/fd.
int close_a_range() {
    for (int fd = 10; fd < 400; ++fd)
        if (::dup2(1, fd) < 0) return 2;
    if (!sys::close_range(20, 398)) return 3;
    for (int fd = 10; fd < 400; ++fd)
        if (is_open(fd) != (fd < 20 || fd > 398)) return 4;
    sys::close_descriptors_except({12, -1, 399});
    for (int fd = 0; fd < 400; ++fd)
        if (is_open(fd) != (fd <= 2 || fd == 12 || fd == 399)) return 5;
    return 0;
}

}  // namespace

TEST_CASE("descriptors: a range is closed, also by a kernel that has no call for it", "[base]") {
    CHECK(in_child(close_a_range) == 0);
    CHECK(in_child([] { return forget_close_range() ? close_a_range() : 1; }) == 0);
}

TEST_CASE("descriptors: standard streams become /dev/null, also where they were closed", "[base]") {
    CHECK(in_child([] {
              ::close(0);
              ::close(2);
              sys::point_at_null({0, 1, 2});
              for (int fd : {0, 1, 2})
                  if (!is_null(fd) || (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) return 1;
              return 0;
          }) == 0);
    CHECK(in_child([] {
              ::close(0);
              int before = ::open("/", O_PATH | O_CLOEXEC), next = ::open("/", O_PATH | O_CLOEXEC);
              ::close(next);
              sys::point_at_null({0, 1, 2}, O_CLOEXEC);
              int after = ::open("/", O_PATH | O_CLOEXEC);
              return before == 0 && after == next && (::fcntl(0, F_GETFD) & FD_CLOEXEC) != 0 ? 0 : 1;
          }) == 0);
}
