#include "runtime/base/descriptors.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "runtime/base/pid.hh"

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
    Pid child(::fork());
    if (child.get() == 0) ::_exit(work());
    return child.wait();
}

}  // namespace

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
