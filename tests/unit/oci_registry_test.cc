#include "runtime/oci/registry/registry.hh"

#include <chrono>
#include <thread>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/registry/server.hh"

using namespace berth::oci;
using berth::cat;
using berth::test::Content;
using berth::test::HttpCall;
using berth::test::HttpReply;
using berth::test::Server;
using Catch::Contains;

namespace {

const std::string manifest_type = "application/vnd.oci.image.manifest.v1+json";

RegistryOptions fast() {
    RegistryOptions out;
    out.limits.connect_seconds = 2;
    out.retry.retries = 2;
    out.retry.first = std::chrono::milliseconds(10);
    return out;
}

Registry client(const std::string& host, RegistryOptions options = fast()) {
    return {berth::plan::parse_reference(host + "/a/b:1"), std::move(options)};
}

template <typename Body>
std::string failure(const Body& body) {
    try {
        body();
    } catch (const berth::Error& error) {
        std::string line = error.what();
        CHECK(line.find('\n') == line.npos);
        CHECK(line.find('\x1b') == line.npos);
        return line;
    }
    return "";
}

std::string get_failure(const Server& server) {
    return failure([&] { client(server.host()).get_manifest("1"); });
}

Server::Handler always(const HttpReply& reply) {
    return [reply](const HttpCall&) { return reply; };
}

Descriptor blob_of(const std::string& bytes) { return {"", sha256_of(bytes), bytes.size()}; }

}  // namespace

TEST_CASE("a page for people is no answer of a registry, and its first line is shown", "[image][registry]") {
    Server said(always({.headers = {"Content-Type: text/html; charset=utf-8"}, .body = "Sign in\x1b[31m\nto go on"}));
    CHECK_THAT(get_failure(said), Contains("not an answer of a registry: the registry " + said.host()) &&
                                      Catch::EndsWith("Sign in\\x1b[31m"));
    Server unsaid(always({.body = "\n<!DOCTYPE html>\n<html>"}));
    CHECK_THAT(get_failure(unsaid), Contains("not an answer of a registry") && Catch::EndsWith("<!DOCTYPE html>"));
}

TEST_CASE("an honest registry is read: HEAD, GET, blob", "[image][registry]") {
    Content content;
    std::string digest = content.add_manifest(manifest_type, "{}");
    content.tag("1", digest);
    std::string blob = content.add_blob("hello");
    Server server([&](const HttpCall& call) { return content.answer(call); });
    Registry registry = client(server.host());
    auto head = registry.head_manifest("1");
    REQUIRE(head);
    CHECK(head->digest == digest);
    CHECK_FALSE(head->etag.empty());
    Document document = registry.get_manifest(digest);
    CHECK(document.bytes == "{}");
    CHECK(document.content_type == manifest_type);
    CHECK(registry.sibling().get_blob(blob_of("hello")) == "hello");
    CHECK(server.log() == std::vector<std::string>{"HEAD /v2/a/b/manifests/1", "GET /v2/a/b/manifests/" + digest,
                                                   "GET /v2/a/b/blobs/" + blob});
    CHECK_THAT(server.calls()[0].headers.at("accept"), Contains("vnd.oci.image.index.v1+json"));
    CHECK(server.calls()[0].headers.count("authorization") == 0);
}

TEST_CASE("a registry without HEAD or without a digest in its answer is asked by GET", "[image][registry]") {
    Server no_head(always({.status = 405}));
    CHECK_FALSE(client(no_head.host()).head_manifest("1"));
    Server no_digest(always({.status = 200}));
    CHECK_FALSE(client(no_digest.host()).head_manifest("1"));
    Server bad_digest(always({.status = 200, .headers = {"Docker-Content-Digest: sha256:../x"}}));
    CHECK_THAT(failure([&] { client(bad_digest.host()).head_manifest("1"); }), Contains("no sha256 digest"));
}

TEST_CASE("refusals are told apart in one line each", "[image][registry]") {
    struct Row {
        long status;
        const char* words;
        bool may_help_later;
    };
    for (const Row& row : {Row{404, "not found", false}, Row{403, "no access", false}, Row{401, "no access", false},
                           Row{429, "limits how much", true}, Row{500, "fault of the registry", true},
                           Row{503, "fault of the registry", true}, Row{418, "unexpected status 418", false}}) {
        Server server(
            always({.status = row.status, .body = R"({"errors":[{"code":"X","message":"because\u001b[31m"}]})"}));
        std::string line = get_failure(server);
        CHECK_THAT(line, Contains(row.words) && Contains("because\\x1b[31m") &&
                             Contains(cat("image ", server.host(), "/a/b:1")));
        if (row.may_help_later)
            CHECK_THROWS_AS(client(server.host()).get_manifest("1"), Unreachable);
        else
            CHECK_THROWS_AS(client(server.host()).get_manifest("1"), berth::Error);
    }
}

TEST_CASE("a registry that does not answer is unreachable", "[image][registry]") {
    std::string gone;
    {
        Server server(always({}));
        gone = server.host();
    }
    CHECK_THROWS_AS(client(gone).head_manifest("1"), Unreachable);
    CHECK_THAT(failure([&] { client(gone).head_manifest("1"); }), Contains("no answer from " + gone));
    Server silent(always({.hang_up = true}));
    CHECK_THROWS_AS(client(silent.host()).head_manifest("1"), Unreachable);
    CHECK_THROWS_AS(client("no-such-host.invalid").head_manifest("1"), Unreachable);
}

TEST_CASE("a token is fetched once, for all siblings", "[image][registry]") {
    Content content;
    std::string digest = content.add_manifest(manifest_type, "{}");
    content.add_blob("x");
    Server* self = nullptr;
    Server server([&](const HttpCall& call) -> HttpReply {
        if (call.target.starts_with("/token")) return {.body = R"({"token":"T0ken"})"};
        auto found = call.headers.find("authorization");
        if (found == call.headers.end() || found->second != "Bearer T0ken")
            return {
                .status = 401,
                .headers = {cat("WWW-Authenticate: Bearer realm=\"http://", self->host(), "/token\",service=\"s s\"")}};
        return content.answer(call);
    });
    self = &server;
    Registry registry = client(server.host());
    CHECK(registry.get_manifest(digest).bytes == "{}");
    CHECK(registry.sibling().get_blob(blob_of("x")) == "x");
    CHECK(server.count("GET /token?service=s%20s&scope=repository%3Aa%2Fb%3Apull") == 1);
    CHECK(server.log().size() == 4);
}

TEST_CASE("hostile row 23: a manifest or blob of another digest or size is refused", "[image][registry]") {
    std::string other = sha256_of("other").text();
    Server lying(always({.headers = {"Docker-Content-Digest: " + other}, .body = "{}"}));
    CHECK_THAT(get_failure(lying), Contains("instead of " + other));
    Server wrong(always({.body = "{}"}));
    CHECK_THAT(failure([&] { client(wrong.host()).get_manifest(other); }), Contains("instead of " + other));

    Descriptor blob = blob_of("hello");
    auto blob_failure = [&](const HttpReply& reply) {
        Server server(always(reply));
        return failure([&] { client(server.host()).get_blob(blob); });
    };
    CHECK(blob_failure({.body = "hello"}).empty());
    CHECK_THAT(blob_failure({.body = "hellO"}), Contains("has the digest"));
    CHECK_THAT(blob_failure({.body = "hell"}), Contains("sent 4 bytes") && Contains("instead of 5"));
    CHECK_THAT(blob_failure({.body = "hello!"}), Contains("instead of 5"));
    CHECK_THAT(blob_failure({.body = "hell", .declared_size = 5}), Contains("no complete answer"));
    blob.data = "hellO";
    CHECK_THAT(blob_failure({}), Contains("has the digest"));
    blob.data = "hello";
    CHECK(blob_failure({.status = 500}).empty());
}

TEST_CASE("hostile row 24: a manifest without end is not read to its end", "[image][registry]") {
    Server server(always({.endless = 100 << 20}));
    CHECK_THAT(get_failure(server), Contains("larger than"));
}

TEST_CASE("hostile row 32: an endless 401 is asked twice", "[image][registry]") {
    Server* self = nullptr;
    Server server([&](const HttpCall& call) -> HttpReply {
        if (call.target.starts_with("/token")) return {.body = R"({"access_token":"x"})"};
        return {.status = 401, .headers = {cat("WWW-Authenticate: Bearer realm=\"http://", self->host(), "/token\"")}};
    });
    self = &server;
    CHECK_THAT(get_failure(server), Contains("no access"));
    CHECK(server.count("GET /v2/") == 2);
    CHECK(server.count("GET /token") == 1);
}

TEST_CASE("hostile row 33: a redirect elsewhere is followed without the token", "[image][registry]") {
    Content content;
    content.add_blob("x");
    Server elsewhere([&](const HttpCall& call) { return content.answer(call); });
    Server* self = nullptr;
    Server server([&](const HttpCall& call) -> HttpReply {
        if (call.target.starts_with("/token")) return {.body = R"({"token":"T"})"};
        if (call.headers.count("authorization") == 0)
            return {.status = 401,
                    .headers = {cat("WWW-Authenticate: Bearer realm=\"http://", self->host(), "/token\"")}};
        return {.status = 307, .headers = {cat("Location: http://", elsewhere.host(), call.target)}};
    });
    self = &server;
    CHECK(client(server.host()).get_blob(blob_of("x")) == "x");
    REQUIRE(elsewhere.calls().size() == 1);
    CHECK(elsewhere.calls()[0].headers.count("authorization") == 0);
}

TEST_CASE("hostile row 34: a redirect to a file, to plain http, to a link-local address or without end is refused",
          "[image][registry]") {
    for (const char* target : {"file:///etc/passwd", "http://registry.invalid/x", "ftp://127.0.0.1/x",
                               "http://169.254.169.254/x", "https://169.254.169.254/x", "", "http://u:p@127.0.0.1/"}) {
        Server server(always({.status = 302, .headers = {cat("Location: ", target)}}));
        CHECK_THAT(get_failure(server), Contains("refused"));
        CHECK(server.log().size() == 1);
    }
    Server loop(always({.status = 302, .headers = {"Location: /again"}}));
    CHECK_THAT(get_failure(loop), Contains("more than 5 times"));
    CHECK(loop.log().size() == 6);
}

TEST_CASE("hostile row 35: a token server over plain http elsewhere is not asked", "[image][registry]") {
    Server server(always({.status = 401, .headers = {"WWW-Authenticate: Bearer realm=\"http://registry.invalid/t\""}}));
    CHECK_THAT(get_failure(server), Contains("has to be https"));
    CHECK(server.log().size() == 1);
}

TEST_CASE("hostile row 39: one byte a second is given up, and a stop is obeyed within a second", "[image][registry]") {
    Server slow(always({.body = std::string(1000, 'x'), .trickle_ms = 500}));
    RegistryOptions options = fast();
    options.limits.slow_seconds = 2;
    auto start = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(client(slow.host(), options).get_manifest("1"), Unreachable);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(8));

    std::atomic<bool> stop = false;
    options.limits.slow_seconds = 30;
    options.stop = &stop;
    std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        stop = true;
    });
    start = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(client(slow.host(), options).get_manifest("1"), berth::Error);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
    stopper.join();
}

TEST_CASE("hostile row 41: of a huge error body 64 KiB are read and control characters escaped", "[image][registry]") {
    Server server(always({.status = 500, .body = "\x1b[2J<html>", .endless = 1ULL << 30}));
    std::string line = get_failure(server);
    CHECK_THAT(line, Contains("\\x1b[2J<html>"));
    CHECK(line.size() < 1500);
    // Each of the three answers may fill the sockets' buffers.
    CHECK(server.sent() < 3 * (16U << 20));
}

TEST_CASE("hostile row 42: plain http is spoken on loopback and where configured, nowhere else", "[image][registry]") {
    Server server(always({.status = 404}));
    RegistryOptions options = fast();
    // The name is not loopback's, so that TLS is tried; there is nothing else on that port.
    std::string port = server.host().substr(server.host().find(':'));
    CHECK_THROWS_AS(client("registry.invalid" + port).head_manifest("1"), Unreachable);
    CHECK(server.log().empty());
}
