#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "spank/task_prolog.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::spank;
using namespace std::string_view_literals;

namespace {

/// A script in a folder of its own.
struct Script {
    std::filesystem::path folder, path;
    explicit Script(const std::string& text) {
        char name[] = "/tmp/berth-prolog-XXXXXX";
        folder = ::mkdtemp(name);
        path = folder / "prolog";
        std::ofstream(path) << "#!/bin/sh\n" << text;
        ::chmod(path.c_str(), 0755);
    }
    ~Script() { std::filesystem::remove_all(folder); }
};

}  // namespace

TEST_CASE("task prolog: what it prints, by the rules of slurm.conf", "[spank]") {
    PrologOutput out = parse_prolog(
        "export A=1\nexport  B = x y=z \nunset  C\nprint hello  there\nprint\nnoise\nexport =1\nexport D\nunset "
        "\nexport E=");
    using Changes = std::vector<plan::EnvironmentChange>;
    CHECK(out.changes == Changes{{"A", "1"}, {"B", " x y=z "}, {"C", std::nullopt}, {"E", ""}});
    CHECK(out.text == "hello  there\n");
    CHECK(parse_prolog("").changes.empty());
}

TEST_CASE("task prolog: what has no name is no variable, and a NUL ends the output as it does for Slurm", "[spank]") {
    CHECK(parse_prolog("export \r=1\nexport \t \r =1\nunset \r\nunset \r\t").changes.empty());
    PrologOutput out = parse_prolog("export A=1\nprint x\nexport B=2\0=3\nexport C=4\nprint y"sv);
    using Changes = std::vector<plan::EnvironmentChange>;
    CHECK(out.changes == Changes{{"A", "1"}, {"B", "2"}});
    CHECK(out.text == "x\n");
}

TEST_CASE("task prolog: it runs with the task's environment alone, and its end is waited for", "[spank]") {
    Script script("echo export GOT=$GIVEN$HOME; echo print out; echo export BAD=1 >&2");
    PrologOutput out = run_prolog(script.path, {"GIVEN=7"});
    CHECK(out.changes.front() == plan::EnvironmentChange{"GOT", "7"});
    CHECK(out.text == "out\n");
}

TEST_CASE("task prolog: a failure has its exit code and names it", "[spank]") {
    Script script("exit 9");
    try {
        run_prolog(script.path, {});
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.exit_code() == 9);
        CHECK(std::string(error.what()).find(script.path.string() + " failed with status 9") != std::string::npos);
    }
    CHECK_THROWS_AS(run_prolog("/not/there", {}), SysError);
}
