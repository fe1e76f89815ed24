#include <seccomp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/container/entrypoint.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"

using namespace berth;
using Changes = std::vector<plan::EnvironmentChange>;

TEST_CASE("entrypoint: its changes go over the image's, but not over what the job keeps", "[entrypoint]") {
    Changes image = {{"PATH", "/bin"}, {"LANG", std::nullopt}},
            entrypoint = {{"PATH", "/e:/bin"}, {"KEPT", "e"}, {"MISSING", "e"}};
    CHECK(with_entrypoint(image, entrypoint, {"KEPT", "MISSING"}, {"KEPT=job"}) ==
          Changes{{"LANG", std::nullopt}, {"PATH", "/e:/bin"}, {"MISSING", "e"}});
    CHECK(with_entrypoint(image, {}, {}, {}) == image);
}

TEST_CASE("entrypoint: one that cannot be watched is waited for all the same", "[entrypoint]") {
    pid_t child = fixtures::forked();
    REQUIRE(child >= 0);
    if (child == 0) {
        scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
        if (::seccomp_rule_add(filter, SCMP_ACT_ERRNO(EMFILE), SCMP_SYS(pidfd_open), 0) != 0 ||
            ::seccomp_load(filter) != 0)
            ::_exit(2);
        try {
            StartedContainer none;
            run_entrypoint({none, {"/entrypoint"}, {}, {}, {}, -1, {}});
        } catch (const SysError& error) {
            ::_exit(error.number() == EMFILE && ::waitpid(-1, nullptr, 0) < 0 && errno == ECHILD ? 0 : 1);
        }
        ::_exit(3);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
