#include "runtime/trust/policy/policy.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/trust/policy/scopes.hh"
#include "tests/catch.hh"

using namespace berth::trust;
using berth::cat;
using Catch::Contains;
using IdentityKind = SignedIdentity::Kind;
using Kind = Requirement::Kind;

namespace {

const std::string hex(64, 'a');

std::string name_text(std::string_view text) {
    auto name = parse_image_name(text);
    return name ? name->text() : "none";
}

/// A policy whose default is one requirement.
Requirement required(const std::string& requirement) {
    return parse_policy(R"({"default":[)" + requirement + "]}", "p.json").fallback.at(0);
}

std::string failure(const std::string& policy) {
    try {
        parse_policy(policy, "p.json");
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

std::string failure_of(const std::string& requirement) { return failure(R"({"default":[)" + requirement + "]}"); }

std::string place_for(const Policy& policy, const std::string& name) {
    return rule_for(policy, subject_of(*parse_image_name(name))).place;
}

bool fits(const SignedIdentity& identity, const std::string& wanted, const std::string& claimed) {
    return matches(identity, parse_image_name(wanted), claimed);
}

}  // namespace

TEST_CASE("names of images in policies have their full form", "[trust]") {
    CHECK(name_text("debian") == "docker.io/library/debian");
    CHECK(name_text("debian:12") == "docker.io/library/debian:12");
    CHECK(name_text("a/b") == "docker.io/a/b");
    CHECK(name_text("index.docker.io/b") == "docker.io/library/b");
    CHECK(name_text("localhost/b") == "localhost/b");
    CHECK(name_text("Host.example:5000/a/b_c/d--e:T.1") == "Host.example:5000/a/b_c/d--e:T.1");
    CHECK(name_text("h.x/a:1@sha256:" + hex) == "h.x/a:1@sha256:" + hex);
    CHECK(name_text("host:5000") == "docker.io/library/host:5000");
    for (const std::string& bad :
         {std::string(), hex, std::string("A"), std::string("h.x/A"), std::string("h.x/a:"), std::string("h.x/a@x"),
          std::string("h.x/a..b"), std::string("h.x/a___b"), std::string("h.x/-a"), std::string("h.x//a"),
          std::string("h.x:/a"), std::string("-h.x/a"), "h.x/a@sha256:" + hex + "a", "h.x/a:" + std::string(129, 'a'),
          "h.x/" + std::string(252, 'a'), std::string("h.x/a b"), std::string("h.x/a:1:2")})
        CHECK(name_text(bad) == "none");
}

TEST_CASE("a reference with a tag counts as one with a tag, whatever its digest", "[trust]") {
    auto name = [](const std::string& text) { return name_of(berth::plan::parse_reference(text)).text(); };
    CHECK(name("debian:12") == "docker.io/library/debian:12");
    CHECK(name("h.example/a") == "h.example/a:latest");
    CHECK(name("h.example/a@sha256:" + hex) == "h.example/a@sha256:" + hex);
    CHECK(name("h.example/a:1@sha256:" + hex) == "h.example/a:1");
}

TEST_CASE("the narrowest scope of a policy counts", "[trust]") {
    std::string one = R"([{"type":"reject"}])";
    auto policy_with = [&](std::initializer_list<const char*> scopes) {
        std::string out;
        for (const char* scope : scopes) out += cat(out.empty() ? "" : ",", "\"", scope, "\":", one);
        return parse_policy(R"({"default":)" + one + R"(,"transports":{"docker":{)" + out + "}}}", "p");
    };
    Policy all = policy_with({"h.example.com:5000/a/b:1", "h.example.com:5000/a/b", "h.example.com:5000/a",
                              "h.example.com:5000", "*.example.com", "*.com", ""});
    CHECK(place_for(all, "h.example.com:5000/a/b:1") == "transports.docker.\"h.example.com:5000/a/b:1\"");
    CHECK(place_for(all, "h.example.com:5000/a/b:2") == "transports.docker.\"h.example.com:5000/a/b\"");
    CHECK(place_for(all, "h.example.com:5000/a/c:1") == "transports.docker.\"h.example.com:5000/a\"");
    CHECK(place_for(all, "h.example.com:5000/ab/c:1") == "transports.docker.\"h.example.com:5000\"");
    CHECK(place_for(all, "h.example.com/a/b:1") == "transports.docker.\"*.example.com\"");
    CHECK(place_for(all, "example.com/a/b:1") == "transports.docker.\"*.com\"");
    CHECK(place_for(all, "h.org/a:1") == "transports.docker.\"\"");
    CHECK(place_for(policy_with({"debian"}), "debian:12") == "default");
    CHECK(place_for(policy_with({"docker.io/library"}), "debian:12") == "transports.docker.\"docker.io/library\"");
    CHECK(place_for(policy_with({"h.example.com"}), "h.example.com:5000/a:1") == "default");
}

TEST_CASE("files are found by the folders above them", "[trust]") {
    Policy policy = parse_policy(R"({"default":[{"type":"reject"}],"transports":{
        "dir":{"/a/b":[{"type":"insecureAcceptAnything"}]},
        "docker-archive":{"":[{"type":"insecureAcceptAnything"}]}}})",
                                 "p");
    auto place = [&](const char* transport, const char* path) {
        return rule_for(policy, subject_of(transport, path)).place;
    };
    CHECK(place("dir", "/a/b") == "transports.dir.\"/a/b\"");
    CHECK(place("dir", "/a/b/c/d") == "transports.dir.\"/a/b\"");
    CHECK(place("dir", "/a/bc") == "default");
    CHECK(place("sif", "/a/b/c") == "default");
    CHECK(place("docker-archive", "/a/b/c") == "transports.docker-archive.\"\"");
}

TEST_CASE("requirements are read with their keys and identities", "[trust]") {
    CHECK(required(R"({"type":"insecureAcceptAnything"})").kind == Kind::accept_anything);
    Requirement one = required(R"({"type":"sigstoreSigned","keyPath":"/k"})");
    CHECK(one.kind == Kind::sigstore_signed);
    CHECK(one.keys.files == std::vector<std::string>{"/k"});
    CHECK(one.identity.kind == IdentityKind::match_repo_digest_or_exact);
    one = required(R"({"type":"sigstoreSigned","keyDatas":["YQ==","YmM=\n"],"signedIdentity":{"type":"matchExact"}})");
    CHECK(one.keys.data == std::vector<std::string>{"a", "bc"});
    CHECK(one.identity.kind == IdentityKind::match_exact);
    one = required(R"({"type":"signedBy","keyType":"GPGKeys","keyPaths":["/a","/b"],
        "signedIdentity":{"type":"remapIdentity","prefix":"h.x:1/a","signedPrefix":"other.x"}})");
    CHECK(one.kind == Kind::signed_by);
    CHECK(one.keys.files.size() == 2);
    CHECK(one.identity.name == "h.x:1/a");
    CHECK(one.identity.signed_name == "other.x");
    CHECK(required(R"({"type":"signedBy","keyType":"X509Certificates","keyPath":"/a"})").kind == Kind::unsupported);
    one = required(R"({"type":"sigstoreSigned","fulcio":{"caPath":"/c","oidcIssuer":"o","subjectEmail":"e"},
        "rekorPublicKeyPath":"/r"})");
    CHECK(one.kind == Kind::unsupported);
    CHECK(one.name == "sigstoreSigned with fulcio");
    one = required(R"({"type":"sigstoreSigned","keyPath":"/c","rekorPublicKeyData":"YQ=="})");
    CHECK(one.name == "sigstoreSigned with rekorPublicKey");
    CHECK(required(R"({"type":"sigstoreSigned","pki":{"caRootsPath":"/c","subjectEmail":"e"}})").name ==
          "sigstoreSigned with pki");
}

TEST_CASE("what the format does not have is an error with its place", "[trust]") {
    CHECK(failure("{}") == "p.json: policy: \"default\" is missing");
    CHECK_THAT(failure("[]"), Contains("is not an object"));
    CHECK_THAT(failure(R"({"default":[]})"), Contains("p.json: policy.default: is no list with something in it"));
    CHECK_THAT(failure(R"({"default":null})"), Contains("p.json: policy.default"));
    CHECK_THAT(failure(R"({"default":[{"type":"reject"}],"x":1})"), Contains("the key \"x\" is unknown"));
    CHECK_THAT(failure(R"({"default":[{"type":"reject"}],"default":[{"type":"reject"}]})"), Contains("twice"));
    CHECK_THAT(failure(R"({"default":[{"type":"reject"}],"transports":null})"), Contains("is not an object"));
    CHECK_THAT(failure_of(R"({"type":"reject","a":1})"),
               Contains("p.json: policy.default[0]: the key \"a\" is unknown"));
    CHECK_THAT(failure_of(R"({"type":"Reject"})"), Contains("\"Reject\" is none of a requirement"));
    CHECK_THAT(failure_of(R"({"Type":"reject"})"), Contains("\"type\" is missing"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned"})"), Contains("exactly one of"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyPath":"/a","keyPaths":["/a"]})"), Contains("exactly one of"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyPath":"/a","keyData":""})"), Contains("exactly one of"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyPaths":[]})"),
               Contains("keyPaths: is no list with something"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyData":"*"})"), Contains("is not base64"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyPath":1})"), Contains("keyPath: is not a string"));
    CHECK_THAT(failure_of(R"({"type":"signedBy","keyPath":"/a"})"), Contains("\"keyType\" is missing"));
    CHECK_THAT(failure_of(R"({"type":"signedBy","keyType":"x","keyPath":"/a"})"), Contains("\"x\" is none"));
    CHECK_THAT(failure_of(R"({"type":"signedBy","keyType":"GPGKeys"})"), Contains("exactly one of"));
    CHECK_THAT(failure_of(R"({"type":"signedBy","keyType":"GPGKeys","keyPath":""})"), Contains("exactly one of"));
    CHECK_THAT(failure_of(R"({"type":"signedBy","keyType":"GPGKeys","keyDatas":["YQ=="]})"), Contains("unknown"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","keyPath":"/a","fulcio":{"x":1}})"), Contains("fulcio: the key"));
    CHECK_THAT(failure_of(R"({"type":"sigstoreSigned","fulcio":{"caPath":"/c","oidcIssuer":"o","subjectEmail":"e"}})"),
               Contains("fulcio needs"));
    auto identity = [](const std::string& text) {
        return failure_of(R"({"type":"sigstoreSigned","keyPath":"/a","signedIdentity":)" + text + "}");
    };
    CHECK_THAT(identity("null"), Contains("signedIdentity: is not an object"));
    CHECK_THAT(identity(R"({"type":"matchAny"})"), Contains("is none of a signedIdentity"));
    CHECK_THAT(identity(R"({"type":"matchExact","a":1})"), Contains("unknown"));
    CHECK_THAT(identity(R"({"type":"exactReference","dockerReference":"h.x/a"})"), Contains("neither a tag nor"));
    CHECK_THAT(identity(R"({"type":"exactReference","dockerReference":"H.x/A:1"})"), Contains("no image reference"));
    CHECK_THAT(identity(R"({"type":"exactRepository"})"), Contains("\"dockerRepository\" is missing"));
    CHECK_THAT(identity(R"({"type":"remapIdentity","prefix":"h.x/a:1","signedPrefix":"h.x"})"), Contains("no host"));
}

TEST_CASE("scopes are as each transport has them", "[trust]") {
    auto takes = [](const char* transport, const std::string& scope) {
        return scope_mistake(transport, scope).empty();
    };
    for (const char* transport : {"docker", "dir", "oci", "docker-archive", "whatever"}) CHECK(takes(transport, ""));
    CHECK(takes("docker", "*.example.com"));
    CHECK(takes("whatever", "??"));
    for (const char* transport : {"dir", "oci", "oci-archive", "sif"}) {
        CHECK(takes(transport, "/a/b"));
        for (const char* bad : {"/", "a", "/a/", "/a//b", "/a/./b", "/a/.."}) CHECK_FALSE(takes(transport, bad));
    }
    CHECK_FALSE(takes("docker-archive", "/a"));
    CHECK_FALSE(takes("tarball", "/a"));
    CHECK(takes("docker-daemon", "h.x/a:1"));
    CHECK_FALSE(takes("docker-daemon", "sha256:" + hex));
    CHECK(takes("atomic", "h.x/a/b/c"));
    CHECK(takes("containers-storage", "[overlay@/a]docker.io/x:1"));
    CHECK(takes("containers-storage", "[/a]"));
    CHECK_FALSE(takes("containers-storage", "docker.io/x"));
    CHECK_FALSE(takes("containers-storage", "[a]"));
}

TEST_CASE("each kind of signedIdentity takes its names", "[trust]") {
    std::string by_digest = "h.x/a@sha256:" + hex;
    SignedIdentity exact{IdentityKind::match_exact};
    CHECK(fits(exact, "h.x/a:1", "h.x/a:1"));
    CHECK_FALSE(fits(exact, "h.x/a:1", "h.x/a:2"));
    CHECK_FALSE(fits(exact, "h.x/a:1", "h.x/a"));
    CHECK_FALSE(fits(exact, by_digest, "h.x/a:1"));
    CHECK(fits(exact, "debian:1", "docker.io/library/debian:1"));
    SignedIdentity usual{IdentityKind::match_repo_digest_or_exact};
    CHECK(fits(usual, "h.x/a:1", "h.x/a:1"));
    CHECK_FALSE(fits(usual, "h.x/a:1", "h.x/a:2"));
    CHECK(fits(usual, by_digest, "h.x/a:2"));
    CHECK_FALSE(fits(usual, by_digest, "h.x/a"));
    CHECK_FALSE(fits(usual, by_digest, "h.x/b:2"));
    SignedIdentity repository{IdentityKind::match_repository};
    CHECK(fits(repository, "h.x/a:1", "h.x/a:2"));
    CHECK(fits(repository, "h.x/a:1", "h.x/a"));
    CHECK_FALSE(fits(repository, "h.x/a:1", "h.x/a/b:1"));
    SignedIdentity reference{IdentityKind::exact_reference, "h.x/z:9"};
    CHECK(fits(reference, "h.x/a:1", "h.x/z:9"));
    CHECK_FALSE(fits(reference, "h.x/a:1", "h.x/a:1"));
    SignedIdentity other{IdentityKind::exact_repository, "h.x/z"};
    CHECK(fits(other, "h.x/a:1", "h.x/z:9"));
    CHECK_FALSE(fits(other, "h.x/z:1", "h.x/a:1"));
    SignedIdentity remap{IdentityKind::remap_identity, "mirror.x/v", "h.x"};
    CHECK(fits(remap, "mirror.x/v/a:1", "h.x/a:1"));
    CHECK_FALSE(fits(remap, "mirror.x/v/a:1", "mirror.x/v/a:1"));
    CHECK(fits(remap, "mirror.x/vv/a:1", "mirror.x/vv/a:1"));
    CHECK_FALSE(fits(remap, "mirror.x/v/a:1", "h.x/a:2"));
    CHECK_FALSE(fits(SignedIdentity{IdentityKind::remap_identity, "mirror.x", "short"}, "mirror.x/a:1", "short/a:1"));
    CHECK_FALSE(matches(exact, std::nullopt, "h.x/a:1"));
    CHECK(matches(other, std::nullopt, "h.x/z:9"));
    CHECK_FALSE(fits(repository, "h.x/a:1", "not a name"));
}
