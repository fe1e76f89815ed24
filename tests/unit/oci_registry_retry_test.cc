#include <chrono>
#include <ctime>
#include <thread>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/registry/registry.hh"
#include "tests/catch.hh"
#include "tests/registry/server.hh"

using namespace berth::oci;
using berth::cat;
using berth::test::Content;
using berth::test::HttpCall;
using berth::test::HttpReply;
using berth::test::Server;
using Catch::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

RegistryOptions fast() {
    RegistryOptions out;
    out.limits.connect_seconds = 2;
    out.retry.first = milliseconds(10);
    return out;
}

Registry client(const Server& server, RegistryOptions options = fast()) {
    return {berth::plan::parse_reference(server.host() + "/a/b:1"), std::move(options)};
}

Descriptor blob_of(const std::string& bytes) { return {"", sha256_of(bytes), bytes.size()}; }

std::string failure(const std::function<void()>& body) {
    try {
        body();
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

/// The byte that a request starts at; where it says none that can be read, none that a test expects. For the server's
/// threads, in which Catch may not be used.
uint64_t start_of(const HttpCall& call) {
    auto range = call.headers.find("range");
    uint64_t start = 0;
    if (range == call.headers.end()) return 0;
    bool said = range->second.size() > 7 &&
                berth::parse_number(range->second.substr(6, range->second.size() - 7), INT64_MAX, start);
    return said ? start : UINT64_MAX;
}

/// A part of `bytes`: from `start` on, as a 206 that breaks off after `count` bytes.
HttpReply part(const std::string& bytes, uint64_t start, size_t count = SIZE_MAX) {
    return {.status = 206,
            .headers = {cat("Content-Range: bytes ", start, "-", bytes.size() - 1, "/", bytes.size())},
            .body = bytes.substr(start, count),
            .declared_size = bytes.size() - start};
}

const std::string bytes = [] {
    std::string out;
    for (int i = 0; i < 5000; ++i) out += cat(i, ",");
    return out;
}();

}  // namespace

TEST_CASE("hostile row 40: a blob that breaks off is resumed at the byte it had reached", "[image][registry]") {
    Server server([&](const HttpCall& call) {
        uint64_t start = start_of(call);
        if (start == 0) return HttpReply{.body = bytes.substr(0, 1000), .declared_size = bytes.size()};
        return part(bytes, start, 9000);
    });
    CHECK(client(server).get_blob(blob_of(bytes)) == bytes);
    auto calls = server.calls();
    CHECK(calls[0].headers.count("range") == 0);
    CHECK(calls[1].headers.at("range") == "bytes=1000-");
    CHECK(calls[2].headers.at("range") == "bytes=10000-");
}

TEST_CASE("hostile row 40: another range, a whole answer, and a refused range are put right", "[image][registry]") {
    std::string how = GENERATE("earlier", "later", "nonsense", "whole", "416", "shorter");
    INFO(how);
    std::atomic<int> wholes = 0;
    Server server([&](const HttpCall& call) -> HttpReply {
        uint64_t start = start_of(call);
        bool first = start == 0;
        if (first && wholes++ == 0) return {.body = bytes.substr(0, 1000), .declared_size = bytes.size()};
        if (first || how == "whole") return {.body = bytes};
        if (how == "earlier") return part(bytes, start - 500);
        if (how == "later") return part(bytes, start + 500);
        if (how == "nonsense") return {.status = 206, .headers = {"Content-Range: items 1-2/3"}, .body = "rubbish"};
        if (how == "416") return {.status = 416, .body = "no"};
        HttpReply reply = part(bytes, start, 2000);
        reply.declared_size = reply.body.size();
        return reply;
    });
    CHECK(client(server).get_blob(blob_of(bytes)) == bytes);
}

TEST_CASE("hostile row 40: a resumed blob that is another one is refused by its digest", "[image][registry]") {
    std::string other(bytes.size(), 'x');
    Server server([&](const HttpCall& call) {
        uint64_t start = start_of(call);
        return start == 0 ? HttpReply{.body = bytes.substr(0, 1000), .declared_size = bytes.size()}
                          : part(other, start);
    });
    CHECK_THAT(failure([&] { client(server).get_blob(blob_of(bytes)); }), Contains("has the digest"));
}

TEST_CASE("hostile row 40: a transfer that breaks again and again without getting on is given up",
          "[image][registry]") {
    Server server([&](const HttpCall& call) {
        uint64_t start = start_of(call);
        return start == 0 ? HttpReply{.body = bytes.substr(0, 1000), .declared_size = bytes.size()}
                          : part(bytes, start, 0);
    });
    CHECK_THAT(failure([&] { client(server).get_blob(blob_of(bytes)); }),
               Contains("no complete answer") && Contains("blob " + sha256_of(bytes).text()));
    CHECK(server.log().size() == 6);
}

TEST_CASE("hostile row 38: a limit is waited for, when its end is near", "[image][registry]") {
    std::string after;
    std::chrono::milliseconds least{0};
    SECTION("seconds") { after = "1", least = milliseconds(1000); }
    SECTION("a date") {
        char text[64];
        time_t end = ::time(nullptr) + 2;
        tm parts{};
        std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", ::gmtime_r(&end, &parts));
        after = text, least = milliseconds(1000);
    }
    SECTION("junk") { after = "in a while"; }
    std::atomic<int> asked = 0;
    Server server([&](const HttpCall&) -> HttpReply {
        if (asked++ > 0) return {.body = "{}"};
        return {.status = 429, .headers = {"Retry-After: " + after}};
    });
    auto start = std::chrono::steady_clock::now();
    CHECK(client(server).get_manifest("1").bytes == "{}");
    auto took = std::chrono::steady_clock::now() - start;
    CHECK(took >= least);
    CHECK(took < seconds(5));
}

TEST_CASE("hostile row 38: a limit with a far end is an error at once, which tells the end", "[image][registry]") {
    Server server([](const HttpCall&) -> HttpReply {
        return {.status = 429,
                .headers = {"Retry-After: 1000000000"},
                .body = R"({"errors":[{"code":"TOOMANYREQUESTS","message":"slow"}]})"};
    });
    CHECK_THAT(failure([&] { client(server).get_manifest("1"); }),
               Contains("limits how much") && Contains("(it says: slow)") && Contains("try again after 20") &&
                   Contains(" UTC"));
    CHECK(server.log().size() == 1);
}

TEST_CASE("a fault that passes is not noticed, one that stays is named", "[image][registry]") {
    std::atomic<int> asked = 0;
    Server passing([&](const HttpCall&) -> HttpReply {
        int count = asked++;
        if (count == 0) return {.status = 503};
        if (count == 1) return {.hang_up = true};
        return {.body = "{}"};
    });
    CHECK(client(passing).get_manifest("1").bytes == "{}");
    CHECK(asked == 3);
    Server staying([](const HttpCall&) -> HttpReply { return {.status = 502, .body = "bad gateway"}; });
    CHECK_THAT(failure([&] { client(staying).get_manifest("1"); }),
               Contains("fault of the registry") && Contains("bad gateway"));
    CHECK(staying.log().size() == 6);
    RegistryOptions impatient = fast();
    impatient.head_retries = 0;
    CHECK_THAT(failure([&] { client(staying, impatient).head_manifest("1"); }), Contains("fault of the registry"));
    CHECK(staying.log().size() == 7);
    Server refusing([](const HttpCall&) -> HttpReply { return {.status = 404}; });
    CHECK_THAT(failure([&] { client(refusing).get_manifest("1"); }), Contains("not found"));
    CHECK(refusing.log().size() == 1);
}

TEST_CASE("hostile row 39: a stop ends the wait for a retry", "[image][registry]") {
    Server server([](const HttpCall&) -> HttpReply { return {.status = 429, .headers = {"Retry-After: 30"}}; });
    std::atomic<bool> stop = false;
    RegistryOptions options = fast();
    options.stop = &stop;
    std::thread stopper([&] {
        std::this_thread::sleep_for(milliseconds(200));
        stop = true;
    });
    auto start = std::chrono::steady_clock::now();
    CHECK(failure([&] { client(server, options).get_manifest("1"); }) == "stopped");
    CHECK(std::chrono::steady_clock::now() - start < seconds(1));
    stopper.join();
}

TEST_CASE("hostile row 43: a token that expires in the middle of a blob is renewed", "[image][registry]") {
    Server* self = nullptr;
    std::atomic<int> tokens = 0;
    std::atomic<int> valid = 1;
    Server server([&](const HttpCall& call) -> HttpReply {
        if (call.target.starts_with("/token")) return {.body = cat(R"({"token":"T)", ++tokens, R"(","expires_in":1})")};
        auto found = call.headers.find("authorization");
        if (found == call.headers.end() || found->second != cat("Bearer T", valid.load()))
            return {.status = 401,
                    .headers = {cat("WWW-Authenticate: Bearer realm=\"http://", self->host(),
                                    "/token\",error=\"invalid_token\"")}};
        uint64_t start = start_of(call);
        if (start > 0) return part(bytes, start);
        valid = 2;
        return {.body = bytes.substr(0, 1000), .declared_size = bytes.size()};
    });
    self = &server;
    CHECK(client(server).get_blob(blob_of(bytes)) == bytes);
    CHECK(tokens == 2);
}

TEST_CASE("mirrors are asked first, and the registry for what they cannot give", "[image][registry]") {
    Content content;
    std::string digest = content.add_manifest("application/vnd.oci.image.manifest.v1+json", "{}");
    content.tag("1", digest);
    content.add_blob(bytes);
    Server origin([&](const HttpCall& call) { return content.answer(call); });
    std::string how = GENERATE("good", "empty", "down", "wrong", "breaks");
    INFO(how);
    Server mirror([&](const HttpCall& call) -> HttpReply {
        if (how == "empty") return {.status = 404};
        if (how == "down") return {.hang_up = true};
        if (how == "wrong" && call.target.find("manifests") != std::string::npos) return {.body = "{ }"};
        if (how == "breaks" && call.target.find("blobs") != std::string::npos)
            return start_of(call) == 0 ? HttpReply{.body = bytes.substr(0, 1000), .declared_size = bytes.size()}
                                       : HttpReply{.hang_up = true};
        return content.answer(call);
    });
    RegistryOptions options = fast();
    options.mirrors = {mirror.host()};
    std::vector<std::string> notices;
    options.notice = [&](const std::string& line) { notices.push_back(line); };
    Registry registry = client(origin, options);
    CHECK(registry.get_manifest(digest).bytes == "{}");
    CHECK(registry.sibling().get_blob(blob_of(bytes)) == bytes);
    CHECK(mirror.log().size() > 0);
    CHECK(origin.log().empty() == (how == "good"));
    CHECK(notices.empty() == (how == "good"));
    // A dead mirror is not asked for each object.
    if (how == "down") CHECK(mirror.log().size() == 2);
    if (how == "breaks") CHECK(origin.calls().back().headers.at("range") == "bytes=1000-");
}

TEST_CASE("a proxy of the site is used for what is not on this machine", "[image][registry]") {
    Content content;
    content.tag("1", content.add_manifest("application/vnd.oci.image.manifest.v1+json", "{}"));
    Server proxy([&](const HttpCall& call) { return content.answer(call); });
    Server local([&](const HttpCall& call) { return content.answer(call); });
    RegistryOptions options = fast();
    options.proxy = "http://" + proxy.host();
    options.plain_http = {"registry.invalid:5000", "direct.invalid:5000"};
    options.no_proxy = "direct.invalid";
    options.retry.retries = 0;
    auto get = [&](const std::string& host) {
        return Registry(berth::plan::parse_reference(host + "/a/b:1"), options).get_manifest("1").bytes;
    };
    CHECK(get("registry.invalid:5000") == "{}");
    CHECK(proxy.log() == std::vector<std::string>{"GET http://registry.invalid:5000/v2/a/b/manifests/1"});
    CHECK(get(local.host()) == "{}");
    CHECK_THAT(failure([&] { get("direct.invalid:5000"); }), Contains("no answer from direct.invalid:5000"));
    CHECK(proxy.log().size() == 1);
}
