#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/fd.hh"
#include "runtime/base/inherited.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

using namespace berth;

namespace {

bool closes_at_exec(int fd) { return ::fcntl(fd, F_GETFD) == FD_CLOEXEC; }

}  // namespace

TEST_CASE("inherited descriptors are not passed on, but for that of PMI_FD", "[base]") {
    pid_t child = fixtures::forked();
    if (child == 0) {
        // Numbers as shells and MPI launchers choose them.
        for (int number : {9, 63, 255}) ::dup2(0, number);
        InheritedDescriptors inherited("63");
        bool hidden = closes_at_exec(9) && closes_at_exec(255) && !closes_at_exec(63) && !closes_at_exec(0);
        Fd own(::fcntl(0, F_DUPFD_CLOEXEC, 300));
        inherited.close();
        bool closed = ::fcntl(9, F_GETFD) < 0 && ::fcntl(255, F_GETFD) < 0 && ::fcntl(63, F_GETFD) == 0 &&
                      ::fcntl(2, F_GETFD) >= 0;
        ::_exit(hidden && closed && ::fcntl(own.get(), F_GETFD) >= 0 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
