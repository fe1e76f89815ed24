#include "runtime/base/error.hh"
#include "runtime/host/run_program.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace std::chrono_literals;

namespace {

ProgramAnswer answer(const std::string& script, std::chrono::seconds limit = 20s) {
    return run_program("/bin/sh", {"-c", script}, "input\n", limit);
}

}  // namespace

TEST_CASE("run_program: input, output, the last line of complaints and the code", "[runtime]") {
    ProgramAnswer seen = answer("cat; echo first >&2; echo last >&2; exit 3");
    CHECK(seen.output == "input\n");
    CHECK(seen.complaint == "last");
    CHECK(seen.code == 3);
    CHECK(answer("kill -9 $$").code == 137);
    CHECK_THROWS_AS(run_program("/no/such/program", {}, "", 1s), SysError);
}

TEST_CASE("run_program: the limit holds for a program, whatever becomes of its output", "[runtime]") {
    for (const char* script : {"exec sleep 20", "exec >&-; exec sleep 20", "sleep 20 & echo $! >&2"}) {
        INFO(script);
        auto begin = std::chrono::steady_clock::now();
        ProgramAnswer seen = answer(script, 1s);
        CHECK(seen.code == -1);
        CHECK(std::chrono::steady_clock::now() - begin < 10s);
        // What a program leaves behind lives on.
        if (!seen.complaint.empty()) answer("kill " + seen.complaint);
    }
    CHECK(answer("exec >&-; sleep 0.2; exit 4").code == 4);
}

TEST_CASE("run_program: why there is no answer is never nothing", "[runtime]") {
    CHECK(why_it_failed(answer("echo first >&2; echo last >&2; exit 3", 60s), 60s) == "last");
    CHECK(why_it_failed(answer("exit 3", 60s), 60s) == "it ended with code 3 without a message");
    CHECK(why_it_failed(answer("kill -9 $$", 60s), 60s) == "it was killed by signal 9 (Killed)");
    CHECK(why_it_failed({.output = {}, .complaint = "late", .code = -1}, 1s) ==
          "it gave no answer within 1 s, or one of more than 4 MiB: late");
}
