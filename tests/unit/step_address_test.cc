#include "runtime/step/address.hh"

#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/error.hh"
#include "tests/catch.hh"

namespace fs = std::filesystem;
using namespace berth;

namespace {

struct Folder {
    Folder() {
        char name[] = "/tmp/berth-test-XXXXXX";
        path = ::mkdtemp(name);
    }
    ~Folder() { fs::remove_all(path); }
    std::string path;
};

}  // namespace

TEST_CASE("step address: a step is reached by its node and number while it listens", "[runtime][job]") {
    Folder folder;
    {
        StepAddress address(folder.path, "n1", "12.0");
        CHECK_FALSE(address.connect());
        Fd listener = address.listen();
        CHECK(StepAddress(folder.path, "n1", "12.0").connect());
        CHECK_FALSE(StepAddress(folder.path, "n2", "12.0").connect());
        CHECK(steps_with_address(folder.path, "n1", "12") == std::vector<std::string>{"12.0"});
    }
    CHECK(steps_with_address(folder.path, "n1", "12").empty());
    CHECK_THROWS_AS(StepAddress(folder.path + "/none", "n1", "12.0"), Error);
}

TEST_CASE("step address: the steps of a job are told from others, and from other files", "[runtime][job]") {
    Folder folder;
    for (const char* name : {"n1.12.0", "n1.12.10", "n1.12.batch", "n1.120.0", "n1.1.2", "n2.12.1", "job-12",
                             "upper-n1.12.3", "n1.12.extern", "n1.x.12.4", "12.5"})
        std::ofstream(folder.path + "/" + name);
    CHECK(steps_with_address(folder.path, "n1", "12") == std::vector<std::string>{"12.0", "12.10", "12.batch"});
    CHECK(steps_with_address(folder.path, "n1.x", "12") == std::vector<std::string>{"12.4"});
    CHECK(steps_with_address(folder.path, "n3", "12").empty());
    CHECK(steps_with_address(folder.path + "/none", "n1", "12").empty());
}
