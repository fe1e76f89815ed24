#include <linux/filter.h>
#include <linux/seccomp.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/sandbox/seccomp.hh"

using namespace berth;

TEST_CASE("the filter of remap-root is a program of allow and fake", "[sandbox]") {
    std::string program = sandbox::fake_root_filter();
    REQUIRE(program.size() % sizeof(sock_filter) == 0);
    REQUIRE(program.size() / sizeof(sock_filter) <= 1000);
    bool allows = false, fakes = false;
    for (size_t at = 0; at < program.size(); at += sizeof(sock_filter)) {
        sock_filter step;
        memcpy(&step, program.data() + at, sizeof step);
        if (BPF_CLASS(step.code) != BPF_RET) continue;
        allows |= step.k == SECCOMP_RET_ALLOW;
        fakes |= step.k == SECCOMP_RET_ERRNO;
        CHECK((step.k == SECCOMP_RET_ALLOW || step.k == SECCOMP_RET_ERRNO));
    }
    CHECK(allows);
    CHECK(fakes);
}

TEST_CASE("what is no filter is not installed", "[sandbox]") {
    CHECK_THROWS_AS(sandbox::install_filter(""), Error);
    CHECK_THROWS_AS(sandbox::install_filter("abc"), Error);
    CHECK_THROWS_AS(sandbox::install_filter(std::string(8 * 5000, 'x')), Error);
}
