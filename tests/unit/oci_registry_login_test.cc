#include <sys/socket.h>

#include <fstream>
#include <thread>

#include "runtime/base/channel.hh"
#include "runtime/base/child.hh"
#include "runtime/base/debug_log.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/registry/server.hh"

using namespace berth::oci;
using berth::cat;
using berth::test::Content;
using berth::test::HttpCall;
using berth::test::HttpReply;
using berth::test::Server;
using Catch::Contains;

namespace {

const std::string secret = "s3cr3t-pass", token = "t0k3n";

RegistryOptions with_login(const Credentials& login) {
    RegistryOptions out;
    out.limits.connect_seconds = 2;
    out.retry.retries = 1;
    out.retry.first = std::chrono::milliseconds(10);
    out.credentials = [login](const LoginQuery&) {
        return CredentialSearch{login, {"/h/auth.json (nothing for it)"}, {}};
    };
    return out;
}

Credentials user_login() { return {"$oauthtoken", secret, "", "", "/h/.docker/config.json"}; }

Registry client(const Server& server, RegistryOptions options) {
    return {berth::plan::parse_reference(server.host() + "/a/b:1"), std::move(options)};
}

std::string authorization_of(const HttpCall& call) {
    auto found = call.headers.find("authorization");
    return found == call.headers.end() ? "" : found->second;
}

std::string failure(const std::function<void()>& body) {
    std::string line;
    try {
        body();
    } catch (const berth::Error& error) {
        line = error.what();
    }
    CHECK_THAT(line, !Contains(secret) && !Contains(encode_base64("$oauthtoken:" + secret)));
    return line;
}

Descriptor blob_of(const std::string& bytes) { return {"", sha256_of(bytes), bytes.size()}; }

/// A registry that wants a login by `scheme`, Basic or by a token server of its own.
struct Locked {
    Content content;
    std::string scheme;
    std::string digest = content.add_manifest("application/vnd.oci.image.manifest.v1+json", "{}");
    Server server{[this](const HttpCall& call) { return answer(call); }};

    explicit Locked(std::string wanted) : scheme(std::move(wanted)) { content.add_blob("x"); }
    std::string basic() const { return "Basic " + encode_base64("$oauthtoken:" + secret); }
    HttpReply answer(const HttpCall& call) const {
        if (call.target.starts_with("/token")) {
            bool known = authorization_of(call) == basic() || call.method == "POST";
            return known ? HttpReply{.body = cat(R"({"token":")", token, "\"}")}
                         : HttpReply{.status = 401, .body = R"({"errors":[{"code":"UNAUTHORIZED","message":"who?"}]})"};
        }
        bool bearer = scheme == "Bearer";
        if (authorization_of(call) == (bearer ? "Bearer " + token : basic()))
            return call.target == "/v2/" ? HttpReply{.body = "{}"} : content.answer(call);
        return {.status = 401,
                .headers = {cat("WWW-Authenticate: ", scheme, " realm=\"",
                                bearer ? cat("http://", server.host(), "/token") : "x", "\"")}};
    }
};

}  // namespace

TEST_CASE("a login is sent by Basic, or to the token server", "[image][registry]") {
    Locked registry(GENERATE("Basic", "Bearer"));
    CHECK(client(registry.server, with_login(user_login())).get_manifest(registry.digest).bytes == "{}");
    CHECK(client(registry.server, with_login(user_login())).get_blob(blob_of("x")) == "x");
    // Not before it is asked for.
    CHECK(authorization_of(registry.server.calls()[0]).empty());
    CHECK_NOTHROW(check_login(registry.server.host(), with_login({}), user_login()));
    Credentials wrong = user_login();
    wrong.password = "other";
    CHECK_THAT(failure([&] { check_login(registry.server.host(), with_login({}), wrong); }),
               Contains("no access") && Contains("login to 127.0.0.1"));
}

TEST_CASE("hostile: the debug log names the file of a login, and has neither the login nor the token",
          "[image][registry]") {
    Locked registry(GENERATE("Basic", "Bearer"));
    auto [log, there] = berth::make_channel();
    berth::debug::start("test", std::move(there));
    CHECK(client(registry.server, with_login(user_login())).get_manifest(registry.digest).bytes == "{}");
    Credentials refresh = user_login();
    refresh.identity_token = secret;
    CHECK_NOTHROW(client(registry.server, with_login(refresh)).get_manifest(registry.digest));
    Credentials wrong = user_login();
    wrong.password = secret + "-wrong";
    CHECK_THROWS(client(registry.server, with_login(wrong)).get_manifest(registry.digest));
    berth::debug::end();
    std::string text;
    char line[8192];
    for (ssize_t size; (size = ::recv(log.get(), line, sizeof line, MSG_DONTWAIT)) > 0; text += '\n')
        text.append(line, static_cast<size_t>(size));
    CHECK_THAT(text, Contains("registry: 127.0.0.1") && Contains("with the login of /h/.docker/config.json") &&
                         Contains(" answers 401"));
    CHECK_THAT(text, !Contains(secret) && !Contains(encode_base64("$oauthtoken:" + secret)) && !Contains(token));
}

TEST_CASE("no access tells which login was sent, or where none was found", "[image][registry]") {
    Locked registry(GENERATE("Basic", "Bearer"));
    Credentials wrong = user_login();
    wrong.password = "other";
    CHECK_THAT(failure([&] { client(registry.server, with_login(wrong)).get_manifest("1"); }),
               Contains("no access") && Contains("sent the login of $oauthtoken from /h/.docker/config.json") &&
                   !Contains("other"));
    CHECK_THAT(failure([&] { client(registry.server, with_login({})).get_manifest("1"); }),
               Contains("no access") && Contains("sent no login") && Contains("/h/auth.json (nothing for it)") &&
                   Contains("berth login 127.0.0.1"));
}

TEST_CASE("a registry that has no manifest says so by 404 to whom it lets in; of a token server that is something else",
          "[image][registry]") {
    Content content;
    content.add_blob("x");
    std::string host;
    bool grants = true;
    long refuses = 404;
    Server server([&](const HttpCall& call) -> HttpReply {
        if (call.target.starts_with("/token"))
            return grants ? HttpReply{.body = R"({"token":"T"})"} : HttpReply{.status = 404};
        if (authorization_of(call) == "Bearer T") return {.status = refuses};
        return {.status = 401, .headers = {cat("WWW-Authenticate: Bearer realm=\"http://", host, "/token\"")}};
    });
    host = server.host();
    CHECK_THROWS_AS(client(server, with_login({})).get_manifest("1"), NoManifest);
    CHECK_THROWS_AS(client(server, with_login({})).head_manifest("1"), NoManifest);
    auto is_something_else = [&] {
        try {
            client(server, with_login({})).head_manifest("1");
        } catch (const NoManifest&) {
            return false;
        } catch (const berth::Error&) {
            return true;
        }
        return false;
    };
    for (long status : {401, 403, 500}) {
        refuses = status;
        CHECK(is_something_else());
    }
    grants = false;
    CHECK(is_something_else());
}

TEST_CASE("an identity token is exchanged by POST, a registry token sent as it is", "[image][registry]") {
    Locked registry("Bearer");
    CHECK(client(registry.server, with_login({"", "", "id/" + secret, "", "f"})).get_manifest(registry.digest).bytes ==
          "{}");
    REQUIRE(registry.server.count("POST /token") == 1);
    for (const HttpCall& call : registry.server.calls()) CHECK_THAT(call.target, !Contains(secret));
    size_t before = registry.server.log().size();
    CHECK(client(registry.server, with_login({"", "", "", token, "f"})).get_manifest(registry.digest).bytes == "{}");
    CHECK(registry.server.log().size() == before + 2);
}

TEST_CASE("the login is looked up once, and only when it is asked for", "[image][registry]") {
    Locked registry("Basic");
    Content open;
    open.add_blob("x");
    Server anonymous([&](const HttpCall& call) { return open.answer(call); });
    int searches = 0;
    RegistryOptions options = with_login({});
    options.credentials = [&](const LoginQuery& query) {
        CHECK(query.host == registry.server.host());
        ++searches;
        return CredentialSearch{user_login(), {}, {}};
    };
    CHECK(client(anonymous, options).get_blob(blob_of("x")) == "x");
    CHECK(searches == 0);
    Registry first = client(registry.server, options);
    first.get_blob(blob_of("x"));
    first.sibling().get_blob(blob_of("x"));
    CHECK(searches == 1);
}

TEST_CASE("hostile row 33: a redirect to another port is followed without the login", "[image][registry]") {
    Content content;
    content.add_blob("x");
    Server elsewhere([&](const HttpCall& call) { return content.answer(call); });
    Server server([&](const HttpCall& call) -> HttpReply {
        if (authorization_of(call).empty()) return {.status = 401, .headers = {"WWW-Authenticate: Basic realm=\"x\""}};
        return {.status = 307, .headers = {cat("Location: http://", elsewhere.host(), call.target)}};
    });
    CHECK(client(server, with_login(user_login())).get_blob(blob_of("x")) == "x");
    REQUIRE(elsewhere.calls().size() == 1);
    CHECK(authorization_of(elsewhere.calls()[0]).empty());
    // The other host cannot ask for it either.
    Server asking([](const HttpCall&) -> HttpReply {
        return {.status = 401, .headers = {"WWW-Authenticate: Basic realm=\"x\""}};
    });
    Server leading([&](const HttpCall& call) -> HttpReply {
        return {.status = 307, .headers = {cat("Location: http://", asking.host(), call.target)}};
    });
    CHECK_THAT(failure([&] { client(leading, with_login(user_login())).get_blob(blob_of("x")); }),
               Contains("no access"));
    for (const HttpCall& call : asking.calls()) CHECK(authorization_of(call).empty());
}

TEST_CASE("hostile row 35: no login goes to a token server that is not https", "[image][registry]") {
    Server server([](const HttpCall&) -> HttpReply {
        return {.status = 401, .headers = {"WWW-Authenticate: Bearer realm=\"http://registry.invalid/t\""}};
    });
    CHECK_THAT(failure([&] { client(server, with_login(user_login())).get_manifest("1"); }),
               Contains("has to be https"));
    for (const HttpCall& call : server.calls()) CHECK(authorization_of(call).empty());
}

TEST_CASE("hostile row 32: a login that is never enough is sent once", "[image][registry]") {
    Server server([](const HttpCall&) -> HttpReply {
        return {.status = 401, .headers = {"WWW-Authenticate: Basic realm=\"x\""}};
    });
    CHECK_THAT(failure([&] { client(server, with_login(user_login())).get_manifest("1"); }), Contains("no access"));
    CHECK(server.log().size() == 2);
}

TEST_CASE("hostile row 37: netrc is not read", "[image][registry]") {
    berth::fixtures::TempFolder home;
    std::ofstream(home / ".netrc") << "machine 127.0.0.1 login u password " << secret << "\n";
    std::string before = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
    ::setenv("HOME", home.path().c_str(), 1);
    Locked registry("Basic");
    CHECK_FALSE(failure([&] { client(registry.server, with_login({})).get_manifest("1"); }).empty());
    ::setenv("HOME", before.c_str(), 1);
    for (const HttpCall& call : registry.server.calls()) CHECK(authorization_of(call).empty());
}

namespace {

/// `openssl s_server` on a free port of 127.0.0.1 with a certificate of its own, serving files.
class TlsServer {
  public:
    TlsServer() {
        make_certificate("own");
        make_certificate("other");
        berth::sys::make_directories(folder_ / "v2/a/b/manifests", 0755);
        std::ofstream(folder_ / "v2/a/b/manifests/1") << "{}";
        server_ = std::make_unique<berth::Child>(
            "/bin/sh",
            std::vector<std::string>{
                "-c",
                cat("cd ", folder_.path(),
                    " && exec openssl s_server -accept 127.0.0.1:0 -cert own.pem -key own.key -WWW 2>/dev/null")});
        std::string said;
        for (char c; said.find("ACCEPT 127.0.0.1:") == said.npos || !said.ends_with('\n'); said += c)
            if (::read(server_->output(), &c, 1) != 1) throw std::runtime_error("openssl s_server does not start");
        port_ = berth::trimmed(said.substr(said.find("ACCEPT 127.0.0.1:") + 17));
    }
    std::string host() const { return "127.0.0.1:" + port_; }
    std::string certificate(const std::string& name) const { return folder_ / (name + ".pem"); }

  private:
    void make_certificate(const std::string& name) const {
        auto made = berth::fixtures::run_command(
            cat("cd ", folder_.path(),
                " && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=berth-test "
                "-addext subjectAltName=IP:127.0.0.1 -keyout ",
                name, ".key -out ", name, ".pem"));
        if (made.status != 0) throw std::runtime_error("openssl req: " + made.output);
    }
    berth::fixtures::TempFolder folder_;
    std::unique_ptr<berth::Child> server_;
    std::string port_;
};

}  // namespace

TEST_CASE("hostile row 42: a certificate that is not trusted is refused, one of the registry's own authorities taken",
          "[image][registry]") {
    TlsServer server;
    auto get = [&](const std::string& ca) {
        RegistryOptions options = with_login(user_login());
        options.ca[server.host()] = ca;
        return Registry(berth::plan::parse_reference(server.host() + "/a/b:1"), options).get_manifest("1").bytes;
    };
    CHECK(get(server.certificate("own")) == "{}");
    CHECK_THAT(failure([&] { get(server.certificate("other")); }),
               Contains("no complete answer") && Contains("certificate"));
    CHECK_THAT(failure([&] { get("/etc/ssl/certs/ca-certificates.crt"); }), Contains("certificate"));
    CHECK_THAT(failure([&] { get("/no/such/file"); }), Contains("no complete answer"));
}
