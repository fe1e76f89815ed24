// Many processes, one store: each blob is fetched once, whoever dies meanwhile.
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/transfer/pull.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using fixtures::ServedLayer;
using fixtures::TarBuilder;
using test::HttpCall;
using test::HttpReply;

namespace {

using Clock = std::chrono::steady_clock;

struct Scene {
    fixtures::TempFolder folder;
    std::string store = folder / "store";
    std::string log = folder / "log";
    test::Content content;
    std::function<std::optional<HttpReply>(const HttpCall&)> fault;
    std::unique_ptr<test::Server> server = std::make_unique<test::Server>([this](const HttpCall& call) {
        if (fault)
            if (auto reply = fault(call)) return *reply;
        return content.answer(call);
    });
    std::string program = fixtures::built_program("berth-pull");

    pid_t start(const std::string& image) const {
        return fixtures::start_program(program, {"--store", store, server->host() + "/" + image}, log);
    }
    size_t blobs(const std::string& digest) const {
        size_t count = 0;
        for (const std::string& line : server->log())
            count += line.starts_with("GET ") && line.ends_with("/blobs/" + digest);
        return count;
    }
};

std::string layer_of(const std::string& name, size_t size) {
    return TarBuilder().directory("bin/").file(name, std::string(size, name[0])).finished();
}

bool wait_until(const std::atomic<bool>& flag) {
    return fixtures::comes_true([&] { return flag.load(); });
}

}  // namespace

TEST_CASE("hostile row 46: 64 processes pull one cold image with one GET a blob", "[pull]") {
    Scene scene;
    std::vector<ServedLayer> layers{ServedLayer(layer_of("bin/one", 300'000)), ServedLayer(layer_of("bin/two", 10)),
                                    ServedLayer(layer_of("bin/three", 10))};
    std::string digest = fixtures::serve_image(scene.content, layers);
    scene.content.tag("1", digest);
    std::vector<pid_t> children;
    for (int i = 0; i < 64; ++i) children.push_back(scene.start("a:1"));
    int succeeded = 0;
    for (pid_t child : children) succeeded += fixtures::wait_for(child) == 0;
    CHECK(succeeded == 64);
    CHECK(scene.server->count("GET /v2/a/blobs/") == 4);
    CHECK(pull::is_complete(store::Store::open(scene.store), Digest(digest)));
}

TEST_CASE("two images that share a layer fetch it once, and the one that waits says for whom", "[pull]") {
    Scene scene;
    ServedLayer shared(layer_of("bin/shared", 100'000));
    std::string first = fixtures::serve_image(scene.content, {shared, ServedLayer(layer_of("bin/a", 10))}, "first");
    std::string second = fixtures::serve_image(scene.content, {shared, ServedLayer(layer_of("bin/b", 10))}, "second");
    std::atomic<bool> reached = false, go_on = false;
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (call.method == "GET" && call.target.ends_with(shared.digest())) {
            reached = true;
            wait_until(go_on);
        }
        return {};
    };
    pid_t one = scene.start("a@" + first);
    REQUIRE(wait_until(reached));
    pid_t other = scene.start("b@" + second);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    go_on = true;
    CHECK(fixtures::wait_for(one) == 0);
    CHECK(fixtures::wait_for(other) == 0);
    CHECK(scene.blobs(shared.digest()) == 1);
    CHECK_THAT(sys::read_file(scene.log), Catch::Contains(cat(", which process ", one, " on ")));
    store::Store store = store::Store::open(scene.store);
    CHECK(pull::is_complete(store, Digest(first)));
    CHECK(pull::is_complete(store, Digest(second)));
}

TEST_CASE("hostile row 46: the leader is killed and another process takes over at once", "[pull]") {
    Scene scene;
    std::vector<ServedLayer> layers{ServedLayer(layer_of("bin/one", 100'000)), ServedLayer(layer_of("bin/two", 10))};
    std::string digest = fixtures::serve_image(scene.content, layers);
    scene.content.tag("1", digest);
    std::atomic<bool> reached = false, killed = false;
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (killed || call.method != "GET" || !call.target.ends_with(layers[0].digest())) return {};
        reached = true;
        wait_until(killed);
        return HttpReply{.hang_up = true};
    };
    pid_t leader = scene.start("a:1");
    REQUIRE(wait_until(reached));
    std::vector<pid_t> others;
    for (int i = 0; i < 8; ++i) others.push_back(scene.start("a:1"));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    fixtures::kill_one(leader, SIGKILL);
    auto start = Clock::now();
    killed = true;
    CHECK(fixtures::wait_for(leader) == 128 + SIGKILL);
    for (pid_t child : others) CHECK(fixtures::wait_for(child) == 0);
    CHECK(Clock::now() - start < std::chrono::seconds(5));
    CHECK(scene.blobs(layers[0].digest()) == 2);
    CHECK(scene.blobs(layers[1].digest()) <= 2);
    CHECK(pull::is_complete(store::Store::open(scene.store), Digest(digest)));
}
