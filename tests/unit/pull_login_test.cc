// The program berth-pull with logins and interruptions, as its callers start it.
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/registry/server.hh"

namespace fs = std::filesystem;
using namespace berth;
using Catch::Contains;
using test::HttpCall;
using test::HttpReply;
using test::Server;

namespace {

const std::string secret = "s3cr3t-pass";

/// A registry behind Basic, and a home without logins.
struct Scene {
    fixtures::TempFolder home;
    Server server{[](const HttpCall& call) -> HttpReply {
        auto found = call.headers.find("authorization");
        if (found == call.headers.end() || found->second != "Basic " + oci::encode_base64("al:" + secret))
            return {.status = 401,
                    .headers = {"WWW-Authenticate: Basic realm=\"x\""},
                    .body = R"({"errors":[{"message":"authentication required"}]})"};
        return {.status = call.target == "/v2/" ? 200 : 404};
    }};
    std::string run(const std::string& before, const std::string& arguments, int code) const {
        auto result = fixtures::run_command(
            cat(before, " env -i HOME=", home.path(), " ", fixtures::built_program("berth-pull"), " ", arguments));
        INFO(result.output);
        CHECK(result.status == code);
        CHECK_THAT(result.output,
                   !Contains(secret) && !Contains("wr0ng") && !Contains(oci::encode_base64("al:" + secret)));
        return result.output;
    }
};

}  // namespace

TEST_CASE("a login is tried, kept, used and removed, and the password shown nowhere", "[pull]") {
    Scene scene;
    std::string host = scene.server.host();
    std::string pull = cat("--store ", scene.home / "store", " ", host, "/a/b:1");
    CHECK_THAT(scene.run("", pull, 125), Contains("sent no login, there is none in") &&
                                             Contains(".docker/config.json (no such file)") &&
                                             Contains("berth login " + host));
    CHECK_THAT(scene.run("echo wr0ng |", cat("--login ", host, " --user al --password-stdin"), 125),
               Contains("no access") && Contains("check the user and the password"));
    CHECK_FALSE(fs::exists(scene.home / ".docker"));
    CHECK_THAT(scene.run(cat("echo ", secret, " |"), cat("--login ", host, " --user al --password-stdin"), 0),
               Contains("logged in to " + host + " as al"));
    struct stat st {};
    REQUIRE(::stat((scene.home / ".docker/config.json").c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
    // With the login the registry tells that there is no such image.
    CHECK_THAT(scene.run("", pull, 125), Contains("not found"));
    CHECK_THAT(scene.run("", "--user bob " + pull, 125), Contains("nothing for bob@" + host));
    CHECK_THAT(scene.run("", "--logout " + host, 0), Contains("logged out"));
    CHECK_THAT(scene.run("", pull, 125), Contains("nothing for " + host));
    CHECK_THAT(scene.run("", "--logout " + host, 125), Contains("there is no login for it"));
    CHECK_THAT(scene.run("", "--logout x --login y", 125), Contains("excludes"));
}

TEST_CASE("a broken login file is named, without its content", "[pull]") {
    Scene scene;
    fs::create_directory(scene.home / ".docker");
    std::ofstream(scene.home / ".docker/config.json") << R"({"auths":{"x":{"password":")" << secret << "\" oops}}}";
    CHECK_THAT(scene.run("", cat("--store ", scene.home / "store", " ", scene.server.host(), "/a/b:1"), 125),
               Contains(".docker/config.json") && Contains("it is not the JSON"));
}

TEST_CASE("hostile row 39: Ctrl-C ends a pull within a second, also one that waits for a limit", "[pull]") {
    bool limited = GENERATE(false, true);
    std::atomic<bool> asked = false;
    Server slow([&](const HttpCall&) -> HttpReply {
        asked = true;
        if (limited) return {.status = 429, .headers = {"Retry-After: 30"}};
        return {.body = std::string(1000, 'x'), .trickle_ms = 500};
    });
    fixtures::TempFolder home;
    std::string store = home / "store", reference = slow.host() + "/a/b:1",
                path = fixtures::built_program("berth-pull");
    pid_t child = fixtures::start_program(path, {"--store", store, reference}, "/dev/null");
    REQUIRE(fixtures::comes_true([&] { return asked.load(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto start = std::chrono::steady_clock::now();
    fixtures::kill_one(child, SIGINT);
    CHECK(fixtures::wait_for(child) == 128 + SIGINT);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
}
