#include "runtime/oci/auth/auth.hh"

#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth::oci;
using Catch::Contains;

namespace {

const Origin secure = origin_of("https://r.io");
const Origin plain = origin_of("http://127.0.0.1:5000");

bool only_loopback(const Origin& origin) { return origin.is_loopback(); }

std::string url(const std::string& header, const Origin& registry) {
    return token_url(parse_challenges(header).at(0), registry, "repository:a/b:pull", only_loopback);
}

}  // namespace

TEST_CASE("challenges are taken apart", "[image][auth]") {
    auto got = parse_challenges(
        R"(Basic realm="x, y", Bearer realm="https://a.io/t?x=1",service="s \"q\"" , Scope=repository)");
    REQUIRE(got.size() == 2);
    CHECK(got[0].scheme == "basic");
    CHECK(got[0].parameters.at("realm") == "x, y");
    CHECK(got[1].scheme == "bearer");
    CHECK(got[1].parameters.at("realm") == "https://a.io/t?x=1");
    CHECK(got[1].parameters.at("service") == "s \"q\"");
    CHECK(got[1].parameters.at("scope") == "repository");
    CHECK(parse_challenges("Negotiate").size() == 1);
}

TEST_CASE("broken challenges end the list and nothing else", "[image][auth]") {
    for (const char* text : {"", ",,,", "=", "\"", "realm=x", "Bearer realm=\"", "Bearer realm=", "\x01\x02",
                             "Bearer =x", "Bearer realm=\"\\"})
        for (const Challenge& challenge : parse_challenges(text)) CHECK(challenge.parameters.count("realm") == 0);
}

TEST_CASE("the token's URL is made of realm, service and scope", "[image][auth]") {
    CHECK(url(R"(Bearer realm="https://a.io/t",service="r.io",scope="repository:x:pull")", secure) ==
          "https://a.io/t?service=r.io&scope=repository%3Ax%3Apull");
    CHECK(url(R"(Bearer realm="https://a.io/t?k=v#f")", secure) ==
          "https://a.io/t?k=v&scope=repository%3Aa%2Fb%3Apull");
    CHECK(url(R"(Bearer realm="https://a.io/t",scope="a b")", secure) == "https://a.io/t?scope=a&scope=b");
    CHECK(url(R"(Bearer realm="http://127.0.0.1:5001/t")", plain).starts_with("http://127.0.0.1:5001/t"));
}

TEST_CASE("hostile row 35: no login goes to a token server over http or on a link-local address", "[image][auth]") {
    for (const char* realm :
         {"http://a.io/t", "http://127.0.0.1/t", "https://169.254.169.254/latest", "https://[fe80::1]/t",
          "https://0xa9fea9fe/x", "https://0251.254.43518/x", "https://[::ffff:169.254.169.254]/x",
          "file:///etc/passwd", "ftp://a.io/", "https://user:secret@a.io/", "/relative", ""})
        CHECK_THROWS_AS(url(std::string("Bearer realm=\"") + realm + "\"", secure), berth::Error);
    CHECK_THROWS_WITH(url(R"(Bearer realm="http://a.io/t")", plain), Contains("has to be https"));
}

TEST_CASE("tokens are taken from either member and must fit a header", "[image][auth]") {
    CHECK(parse_token(R"({"token":"abc"})") == "abc");
    CHECK(parse_token(R"({"access_token":"abc","expires_in":3})") == "abc");
    for (const char* text :
         {"", "[]", "{}", R"({"token":""})", R"({"token":3})", R"({"token":"a\r\nX: y"})", R"({"token":"a b"})"})
        CHECK_THROWS_AS(parse_token(text), berth::Error);
}

TEST_CASE("origins are compared by what they mean", "[image][auth]") {
    CHECK(origin_of("https://R.io/x") == origin_of("https://r.io:443/y"));
    CHECK(origin_of("http://[::1]:5000/").is_loopback());
    CHECK(origin_of("http://127.8.9.1/").is_loopback());
    CHECK(origin_of("http://localhost:1/").is_loopback());
    CHECK_FALSE(origin_of("http://127.0.0.1.evil.io/").is_loopback());
    CHECK_FALSE(origin_of("http://localhost.evil.io/").is_loopback());
    CHECK_FALSE(origin_of("http://128.0.0.1/").is_loopback());
    CHECK(origin_of("https://r.io:5000/").authority() == "r.io:5000");
    CHECK(origin_of("https://r.io/").authority() == "r.io");
    CHECK(resolved("https://r.io/v2/a/blobs/x?y", "/other") == "https://r.io/other");
    CHECK(resolved("https://r.io/v2/a", "https://cdn.io/b#c") == "https://cdn.io/b");
}
