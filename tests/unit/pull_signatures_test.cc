// Pulls under a signature policy, from a registry that has signatures, lacks them, or is hostile.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "runtime/base/sys.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/admission.hh"
#include "runtime/store/signature_record.hh"
#include "runtime/trust/remembered.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/bundle.hh"
#include "runtime/trust/signature/payload.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pull_scene.hh"
#include "tests/unit/trust_keys.hh"

using namespace berth;
using namespace berth::fixtures;
using berth::oci::sha256_of;
using Catch::Contains;
using test::HttpCall;
using test::HttpReply;

namespace {

template <typename Body>
std::string failure_of(const Body& body) {
    try {
        body();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

/// A scene with a policy that wants a key's signature from everybody.
struct SignedScene : PullScene {
    trust::PrivateKey key = test::make_key("P-256");
    TwoLayers image;
    std::string digest;

    SignedScene() {
        digest = image.add_to(content);
        content.tag("1", digest);
        signatures = {folder / "policy.json", false, "berth.conf:3: policy.signatures"};
        write(folder / "key.pub", key.public_key().pem());
        want_signature();
    }
    void set_policy(const std::string& requirement) {
        write(signatures.policy, R"({"default":[)" + requirement + "]}");
    }
    void want_signature(const std::string& identity = "matchRepoDigestOrExact") {
        set_policy(R"({"type":"sigstoreSigned","keyPath":")" + (folder / "key.pub") +
                   R"(","signedIdentity":{"type":")" + identity + R"("}})");
    }
    std::string name() const { return host + "/a/b:1"; }
    /// As cosign and skopeo attach it.
    void attach(const trust::PrivateKey& by, const std::string& claimed, const std::string& of) {
        std::string payload = trust::make_payload({Digest(of), claimed}, 1700000000);
        trust::NewAttachment made = trust::with_signature("", payload, by.sign(payload), "m");
        content.add_blob(payload);
        content.tag(trust::signature_tag(Digest(digest)), content.add_manifest(oci_manifest, made.manifest));
    }
    /// A bundle as cosign 3 makes it; returns the manifest that refers to the image.
    std::string add_bundle(const std::string& claimed) {
        std::string statement = R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":")" + claimed +
                                R"(","digest":{"sha256":")" + Digest(digest).hex() +
                                R"("}}],"predicateType":"https://sigstore.dev/cosign/sign/v1","predicate":{}})";
        std::string signature = key.sign(trust::pre_authentication("application/vnd.in-toto+json", statement));
        std::string bundle = cat(
            R"({"mediaType":")", trust::bundle_type, R"(","verificationMaterial":{"publicKey":{}},)",
            R"("dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","payload":")",
            oci::encode_base64(statement), R"(","signatures":[{"sig":")", oci::encode_base64(signature), R"("}]}})");
        return content.add_manifest(oci_manifest,
                                    cat(R"({"schemaVersion":2,"artifactType":")", trust::bundle_type, R"(","layers":[)",
                                        descriptor(trust::bundle_type, content.add_blob(bundle), bundle.size()), "]}"));
    }
    std::string index_of(const std::string& manifest) {
        return cat(R"({"schemaVersion":2,"manifests":[)",
                   descriptor(oci_manifest, manifest, 500, cat(R"(,"artifactType":")", trust::bundle_type, "\"")),
                   "]}");
    }
    std::string record() const { return open().find_document(Digest(digest), store::signature_record_file).value(); }
};

}  // namespace

TEST_CASE("a signed image is pulled, and remembered by key and name", "[trust][pull]") {
    SignedScene scene;
    scene.attach(scene.key, scene.name(), scene.digest);
    CHECK(scene.pull() == scene.digest);
    store::SignatureRecord record = store::parse_signatures(scene.record());
    REQUIRE(record.admitted.size() == 1);
    CHECK(record.admitted[0].name == scene.name());
    CHECK(record.admitted[0].rule == "default");
    REQUIRE(record.admitted[0].signers.size() == 1);
    CHECK(record.admitted[0].signers[0].key == scene.key.public_key().fingerprint());
    CHECK(record.admitted[0].signers[0].from == scene.folder / "key.pub");
    CHECK(record.admitted[0].sources.size() == 2);
    size_t before = scene.requests();
    CHECK(scene.pull(":1", pull::Policy::missing) == scene.digest);
    CHECK(scene.requests() == before);
}

TEST_CASE("an image without a signature is refused before a layer is fetched", "[trust][pull]") {
    SignedScene scene;
    std::string line = scene.failure();
    CHECK_THAT(line, Contains("berth.conf:3: policy.signatures: " + scene.signatures.policy + ": default wants"));
    CHECK_THAT(line, Contains("and the image has none; berth sign --key KEY IMAGE makes one"));
    CHECK(scene.objects("images") == 0);
    CHECK(scene.objects("layers") == 0);
    CHECK(scene.server->count("GET /v2/a/b/blobs/") == 0);
}

TEST_CASE("signatures for another manifest, name or key are refused", "[trust][pull]") {
    SignedScene scene;
    SECTION("another manifest") {
        scene.attach(scene.key, scene.name(), sha256_of("x").text());
        CHECK_THAT(scene.failure(), Contains("is for another manifest"));
    }
    SECTION("another tag") {
        scene.attach(scene.key, scene.host + "/a/b:2", scene.digest);
        CHECK_THAT(scene.failure(), Contains("matchRepoDigestOrExact takes no such"));
        scene.want_signature("matchRepository");
        CHECK(scene.pull() == scene.digest);
    }
    SECTION("another key") {
        scene.attach(test::make_key("P-256"), scene.name(), scene.digest);
        CHECK_THAT(scene.failure(), Contains("is by another key"));
    }
    CHECK(scene.objects("tmp") == 0);
}

TEST_CASE("a tag that was resolved to a digest is still judged by its tag", "[trust][pull]") {
    SignedScene scene;
    scene.attach(scene.key, scene.host + "/a/b:2", scene.digest);
    CHECK_THAT(scene.failure(":1@" + scene.digest), Contains("takes no such"));
    CHECK(scene.pull("@" + scene.digest) == scene.digest);
}

TEST_CASE("a policy or key that changed is looked at again, without a request where that does", "[trust][pull]") {
    SignedScene scene;
    scene.attach(scene.key, scene.name(), scene.digest);
    scene.pull();
    size_t before = scene.requests();
    scene.want_signature("matchRepository");
    CHECK(scene.pull(":1", pull::Policy::missing) == scene.digest);
    CHECK(scene.requests() == before);
    write(scene.folder / "key.pub", test::make_key("P-256").public_key().pem());
    CHECK_THAT(scene.failure(":1", pull::Policy::missing), Contains("is by another key"));
    CHECK(scene.requests() > before);
    scene.set_policy(R"({"type":"reject"})");
    CHECK_THAT(scene.failure(":1", pull::Policy::missing), Contains("refuses such images (reject)"));
}

TEST_CASE("an image that came before the policy is checked", "[trust][pull]") {
    SignedScene scene;
    pull::SignatureRules rules = std::exchange(scene.signatures, {});
    scene.pull();
    scene.signatures = rules;
    CHECK_THAT(scene.failure(":1", pull::Policy::never), Contains("the image has none"));
    scene.attach(scene.key, scene.name(), scene.digest);
    CHECK(scene.pull(":1", pull::Policy::never) == scene.digest);
    CHECK_FALSE(scene.record().empty());
}

TEST_CASE("bundles are found by the referrers API, and by the tag in its place", "[trust][pull]") {
    SignedScene scene;
    std::string manifest = scene.add_bundle(scene.name());
    if (GENERATE(true, false))
        scene.content.refer(scene.digest, scene.index_of(manifest));
    else
        scene.content.tag(oci::referrers_tag(Digest(scene.digest)),
                          scene.content.add_manifest(oci_index, scene.index_of(manifest)));
    CHECK(scene.pull() == scene.digest);
    CHECK(store::parse_signatures(scene.record()).admitted.at(0).signers.size() == 1);
}

TEST_CASE("a bundle without a name counts where the site says so", "[trust][pull]") {
    SignedScene scene;
    scene.content.refer(scene.digest, scene.index_of(scene.add_bundle("")));
    CHECK_THAT(scene.failure(), Contains("names no image"));
    scene.signatures.unnamed = true;
    CHECK(scene.pull() == scene.digest);
}

TEST_CASE("a registry that is hostile about signatures gets no image started", "[trust][pull][hostile]") {
    SignedScene scene;
    scene.attach(scene.key, scene.name(), scene.digest);
    std::string tag = trust::signature_tag(Digest(scene.digest));
    HttpReply reply;
    SECTION("no JSON") { reply = {.body = "\x1b[31mno"}; }
    SECTION("endless") { reply = {.endless = 8 << 20}; }
    SECTION("no access") { reply = {.status = 403, .body = "x"}; }
    SECTION("another digest") { reply = {.headers = {"Docker-Content-Digest: sha256:" + std::string(64, '0')}}; }
    SECTION("too many layers") {
        std::string layers = "{}";
        for (size_t i = 0; i < trust::attachment_limit; ++i) layers += ",{}";
        reply = {.body = R"({"schemaVersion":2,"layers":[)" + layers + "]}"};
    }
    SECTION("a blob too large") {
        reply = {.body = cat(R"({"schemaVersion":2,"layers":[)",
                             descriptor(trust::payload_type, sha256_of("").text(), 1 << 30,
                                        cat(R"(,"annotations":{")", trust::signature_annotation, R"(":"YQ=="})")),
                             "]}")};
    }
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (call.target.ends_with(tag)) return reply;
        return std::nullopt;
    };
    std::string line = scene.failure();
    CHECK_THAT(line, Contains("default wants a sigstore signature"));
    CHECK(line.find('\x1b') == line.npos);
    CHECK(scene.objects("images") == 0);
    scene.fault = nullptr;
    CHECK(scene.pull() == scene.digest);
}

TEST_CASE("a registry that fails is no image without a signature", "[trust][pull]") {
    SignedScene scene;
    scene.fault = [&](const HttpCall& call) -> std::optional<HttpReply> {
        if (call.target.find(".sig") != std::string::npos) return HttpReply{.hang_up = true};
        return std::nullopt;
    };
    CHECK_THAT(scene.failure(), Contains("signatures at sha256-") && !Contains("has none"));
}

namespace {

/// A GPG home with one key, and what it signs.
struct Gpg {
    explicit Gpg(const std::string& home) : home_(home) {
        std::filesystem::create_directory(home);
        std::filesystem::permissions(home, std::filesystem::perms::owner_all);
        run("--passphrase '' --quick-generate-key signer@example.org ed25519 sign");
    }
    ~Gpg() { std::ignore = std::system(cat("gpgconf --homedir ", home_, " --kill all > /dev/null 2>&1").c_str()); }
    void run(const std::string& words) const {
        REQUIRE(std::system(cat("gpg --homedir ", home_, " --batch --quiet --pinentry-mode loopback ", words,
                                " > /dev/null 2>&1")
                                .c_str()) == 0);
    }

  private:
    std::string home_;
};

std::string gpg_payload(const std::string& digest, const std::string& name) {
    return R"({"critical":{"type":"atomic container signature","image":{"docker-manifest-digest":")" + digest +
           R"("},"identity":{"docker-reference":")" + name + R"("}},"optional":{}})";
}

}  // namespace

TEST_CASE("GPG signatures of a lookaside folder are checked by gpgv", "[trust][pull]") {
    SignedScene scene;
    Gpg gpg(scene.folder / "gnupg");
    std::string place = cat(scene.folder / "lookaside", "/a/b@sha256=", Digest(scene.digest).hex());
    std::filesystem::create_directories(place);
    std::filesystem::create_directory(scene.folder / "registries.d");
    write(scene.folder / "registries.d" + "/a.yaml",
          cat("default-docker:\n  lookaside: file://", scene.folder / "lookaside", "\n"));
    gpg.run(cat(GENERATE("--armor ", ""), "--output ", scene.folder / "signer.gpg", " --export signer@example.org"));
    scene.set_policy(R"({"type":"signedBy","keyType":"GPGKeys","keyPath":")" + (scene.folder / "signer.gpg") + "\"}");
    CHECK_THAT(scene.failure(), Contains("a GPG signature by") && Contains("the image has none"));
    auto sign = [&](const std::string& text) {
        write(scene.folder / "text", text);
        gpg.run(cat("--yes --output ", place, "/signature-1 --sign ", scene.folder / "text"));
    };
    sign(gpg_payload(scene.digest, scene.host + "/a/b:2"));
    CHECK_THAT(scene.failure(), Contains("takes no such"));
    sign(gpg_payload(sha256_of("x").text(), scene.name()));
    CHECK_THAT(scene.failure(), Contains("is for another manifest"));
    write(place + "/signature-1", "no signature");
    CHECK_THAT(scene.failure(), Contains("this is no signature"));
    sign(gpg_payload(scene.digest, scene.name()));
    CHECK(scene.pull() == scene.digest);
    CHECK(store::parse_signatures(scene.record()).admitted.at(0).signers.at(0).key.size() == 40);
}

TEST_CASE("GPG signatures come from a lookaside server; one that fails is no image without a signature",
          "[trust][pull]") {
    SignedScene scene;
    Gpg gpg(scene.folder / "gnupg");
    write(scene.folder / "text", gpg_payload(scene.digest, scene.name()));
    gpg.run(cat("--output ", scene.folder / "signed", " --sign ", scene.folder / "text"));
    gpg.run(cat("--output ", scene.folder / "signer.gpg", " --export signer@example.org"));
    std::string place = cat("/sigs/a/b@sha256=", Digest(scene.digest).hex(), "/signature-");
    std::atomic<long> status = 500;
    test::Server lookaside([&](const HttpCall& call) {
        if (call.target != place + "1") return HttpReply{.status = 404};
        return HttpReply{.status = status, .body = sys::read_file(scene.folder / "signed")};
    });
    std::filesystem::create_directory(scene.folder / "registries.d");
    write(scene.folder / "registries.d" + "/a.yaml",
          cat("docker:\n  \"", scene.host, "/a\":\n    lookaside: http://", lookaside.host(), "/sigs\n"));
    scene.set_policy(R"({"type":"signedBy","keyType":"GPGKeys","keyPath":")" + (scene.folder / "signer.gpg") + "\"}");
    CHECK_THAT(scene.failure(), Contains("status 500") && !Contains("has none"));
    status = 404;
    CHECK_THAT(scene.failure(), Contains("the image has none"));
    status = 200;
    CHECK(scene.pull() == scene.digest);
    CHECK(lookaside.count("GET " + place + "2") == 1);
}

TEST_CASE("a mistake in the policy is named with its file", "[trust][pull]") {
    SignedScene scene;
    scene.set_policy(R"({"type":"reject","x":1})");
    CHECK_THAT(failure_of([&] { scene.pull(); }),
               Contains(scene.signatures.policy + ": policy.default[0]: the key \"x\" is unknown"));
}

TEST_CASE("what is remembered of signatures comes back", "[trust][store]") {
    std::vector<trust::Signature> all{{trust::Signature::Kind::payload, "a\0b\n", "c2ln", "tag"},
                                      {trust::Signature::Kind::gpg, std::string("\x90\x00", 2), "", "signature-1"}};
    auto again = trust::parse_remembered(trust::format_remembered(all), "store");
    REQUIRE(again.size() == 2);
    CHECK(again[0].content == all[0].content);
    CHECK(again[1].content == all[1].content);
    CHECK(again[1].kind == trust::Signature::Kind::gpg);
    CHECK_THROWS_AS(trust::parse_remembered("{}", "store"), Error);
    store::SignatureRecord record;
    record.put({"h/a:1", "default", {{"sha256:x", "/k", "h/a:1"}}, {{"00", "/p"}, {"11", "/k"}}});
    record.put({"h/a:2", "transports.docker.\"\"", {}, {{"00", "/p"}}});
    store::SignatureRecord read = store::parse_signatures(store::format_signatures(record));
    REQUIRE(read.admitted.size() == 2);
    CHECK(read.find("h/a:1")->signers.at(0).from == "/k");
    CHECK(read.find("h/a:2")->rule == "transports.docker.\"\"");
    CHECK(store::parse_signatures("berth-signatures 2\nadmitted a\tb\n").admitted.empty());
    CHECK(store::parse_signatures("").admitted.empty());
}

TEST_CASE("a start is let go by a record only while policy and keys are the same", "[trust][store]") {
    store::SignatureRecord record;
    record.put({"h/a:1", "default", {}, {{store::content_mark("policy"), "/p"}, {store::content_mark("key"), "/k"}}});
    std::map<std::string, std::string> files{{"/p", "policy"}, {"/k", "key"}};
    auto read = [&](const std::string& path) {
        if (!files.contains(path)) throw Error("no such file");
        return files[path];
    };
    CHECK(store::is_admitted(record, "h/a:1", "/p", read));
    CHECK_FALSE(store::is_admitted(record, "h/a:2", "/p", read));
    CHECK_FALSE(store::is_admitted(record, "h/a:1", "/other", read));
    files["/k"] = "key2";
    CHECK_FALSE(store::is_admitted(record, "h/a:1", "/p", read));
    files.erase("/k");
    CHECK_FALSE(store::is_admitted(record, "h/a:1", "/p", read));
    CHECK_FALSE(store::is_admitted({}, "h/a:1", "/p", read));
    auto name = [](const std::string& text) { return store::admitted_name(plan::parse_reference(text)); };
    std::string digest = "@sha256:" + std::string(64, 'a');
    CHECK(name("u@h.x/a:1" + digest) == "h.x/a:1");
    CHECK(name("h.x/a" + digest) == "h.x/a" + digest);
}
