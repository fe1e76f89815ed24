#include <openssl/evp.h>
#include <openssl/pem.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/trust/judge.hh"
#include "runtime/trust/lookaside.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/gpg.hh"
#include "runtime/trust/signature/payload.hh"
#include "tests/catch.hh"
#include "tests/unit/trust_keys.hh"

using namespace berth::trust;
using berth::cat;
using berth::Digest;
using berth::test::make_key;
using Catch::Contains;

namespace {

const std::string document = R"({"schemaVersion":2})";
const Digest manifest = berth::oci::sha256_of(document);
const Digest other = berth::oci::sha256_of("other");

template <typename Body>
std::string failure(const Body& body) {
    try {
        body();
    } catch (const berth::Error& error) {
        return error.what();
    }
    return "";
}

std::string payload_with(const std::string& critical, const std::string& optional) {
    return R"({"critical":)" + critical + R"(,"optional":)" + optional + "}";
}

std::string critical(const std::string& type = "cosign container image signature", const std::string& more = "") {
    return R"({"type":")" + type + R"(","image":{"docker-manifest-digest":")" + manifest.text() +
           R"("},"identity":{"docker-reference":"h.x/a:1"})" + more + "}";
}

std::string payload_failure(const std::string& text, PayloadKind kind = PayloadKind::cosign) {
    return failure([&] { parse_payload(text, kind, "payload"); });
}

Signature signed_payload(const PrivateKey& key, const Digest& digest, const std::string& name) {
    std::string payload = make_payload({digest, name}, 1700000000);
    return {Signature::Kind::payload, payload, berth::oci::encode_base64(key.sign(payload)), "tag x"};
}

/// As cosign 3 writes it, with a key.
Signature signed_bundle(const PrivateKey& key, const Digest& digest, const std::string& name,
                        const std::string& predicate = "https://sigstore.dev/cosign/sign/v1") {
    std::string statement = R"({"_type":"https://in-toto.io/Statement/v1","subject":[{"name":")" + name +
                            R"(","digest":{"sha256":")" + digest.hex() + R"("}}],"predicateType":")" + predicate +
                            R"(","predicate":{}})";
    std::string signature = key.sign(pre_authentication("application/vnd.in-toto+json", statement));
    return {Signature::Kind::bundle,
            cat(R"({"mediaType":")", bundle_type, R"(","verificationMaterial":{"publicKey":{"hint":"x"}},)",
                R"("dsseEnvelope":{"payloadType":"application/vnd.in-toto+json","payload":")",
                berth::oci::encode_base64(statement), R"(","signatures":[{"sig":")",
                berth::oci::encode_base64(signature), R"("}]}})"),
            "", "referrer x"};
}

/// What a policy whose default is `requirement` says of an image h.x/a:1 with these signatures.
Verdict verdict(const std::string& requirement, const std::vector<Signature>& signatures, bool unnamed = false,
                const std::string& name = "h.x/a:1") {
    Policy policy = parse_policy(R"({"default":[)" + requirement + "]}", "policy");
    Means means;
    means.read = [](const std::string& path) -> std::string { throw berth::Error("reading " + path + ": no"); };
    means.gpg = [](const std::vector<std::string>&, const std::string&) -> Means::GpgText {
        throw berth::Error("the signature: gpgv says no");
    };
    Candidate image{subject_of(*parse_image_name(name)), manifest, document, unnamed};
    return judge(rule_for(policy, image.subject), image, signatures, means);
}

std::string by_key(const PrivateKey& key, const std::string& identity = "matchExact") {
    return R"({"type":"sigstoreSigned","keyData":")" + berth::oci::encode_base64(key.public_key().pem()) +
           R"(","signedIdentity":{"type":")" + identity + R"("}})";
}

}  // namespace

TEST_CASE("a key of each kind signs, and another one's signature is none", "[trust]") {
    for (const char* kind : {"P-256", "P-384", "RSA", "ED25519"}) {
        CAPTURE(kind);
        PrivateKey key = make_key(kind), stranger = make_key(kind);
        PublicKey known(key.public_key().pem(), "k.pub");
        std::string signature = key.sign("text");
        CHECK(known.verifies("text", signature));
        CHECK_FALSE(known.verifies("texT", signature));
        CHECK_FALSE(stranger.public_key().verifies("text", signature));
        for (size_t i = 0; i < signature.size(); i += 7) {
            std::string flipped = signature;
            flipped[i] = static_cast<char>(flipped[i] ^ 1);
            CHECK_FALSE(known.verifies("text", flipped));
        }
        CHECK_FALSE(known.verifies("text", ""));
        CHECK(known.fingerprint() == key.public_key().fingerprint());
        CHECK(known.fingerprint() != stranger.public_key().fingerprint());
    }
}

TEST_CASE("what is no key, or a weak one, is named", "[trust]") {
    auto read = [](const std::string& pem) { return failure([&] { PublicKey(pem, "k.pub"); }); };
    CHECK(read("") == "k.pub: no public key in PEM in it");
    CHECK_THAT(read("-----BEGIN PUBLIC KEY-----\nYQ==\n-----END PUBLIC KEY-----\n"), Contains("\"PUBLIC KEY\" is no"));
    CHECK_THAT(read("-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"), Contains("\"CERTIFICATE\""));
    CHECK_THAT(failure([&] { make_key("RSA-1024"); }), Contains("an RSA key of 1024 bits; 2048 are the least"));
    CHECK_THAT(failure([&] { make_key("X25519"); }), Contains("neither ECDSA"));
    CHECK_THAT(failure([] { PrivateKey("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\nYQ==\n", "k"); }),
               Contains("cosign's own form"));
}

TEST_CASE("a payload is read as strictly as the reference reads it", "[trust]") {
    Claim claim = parse_payload(payload_with(critical(), "null"), PayloadKind::cosign, "payload");
    CHECK(claim.manifest == manifest);
    CHECK(claim.name == "h.x/a:1");
    CHECK(payload_failure(payload_with(critical(), R"({"creator":"x","timestamp":1,"mine":{"a":[1]}})")).empty());
    CHECK(payload_failure(payload_with(critical("atomic container signature"), "{}"), PayloadKind::gpg).empty());
    CHECK_THAT(payload_failure(payload_with(critical("atomic container signature"), "{}")), Contains("the type is"));
    CHECK_THAT(payload_failure(payload_with(critical(), "{}"), PayloadKind::gpg), Contains("the type is"));
    CHECK_THAT(payload_failure(payload_with(critical("atomic container signature"), "null"), PayloadKind::gpg),
               Contains("is not an object"));
    CHECK_THAT(payload_failure(payload_with(critical("cosign container image signature", R"(,"x":1)"), "{}")),
               Contains("unknown"));
    CHECK_THAT(payload_failure(payload_with(critical(), R"({"timestamp":1.5})")), Contains("whole number"));
    CHECK_THAT(payload_failure(payload_with(critical(), R"({"timestamp":"1"})")), Contains("no number"));
    CHECK_THAT(payload_failure(payload_with(critical(), R"({"creator":1})")), Contains("not a string"));
    CHECK_THAT(payload_failure(R"({"critical":{}})"), Contains("\"optional\" is missing"));
    CHECK_THAT(payload_failure(payload_with(critical(), "{}") + "x"), Contains("not valid JSON"));
    std::string made = make_payload({manifest, "h.x/a:1"}, 5);
    CHECK(parse_payload(made, PayloadKind::cosign, "payload").name == "h.x/a:1");
}

TEST_CASE("a signature for the manifest and the name lets an image run", "[trust]") {
    PrivateKey key = make_key("P-256"), stranger = make_key("P-256");
    Verdict good = verdict(by_key(key), {signed_payload(key, manifest, "h.x/a:1")});
    CHECK(good.allowed);
    CHECK(good.rule == "default");
    REQUIRE(good.signers.size() == 1);
    CHECK(good.signers[0].key == key.public_key().fingerprint());
    CHECK(good.signers[0].name == "h.x/a:1");
    CHECK(
        verdict(by_key(key), {signed_payload(stranger, manifest, "h.x/a:1"), signed_payload(key, manifest, "h.x/a:1")})
            .allowed);
    CHECK_THAT(verdict(by_key(key), {}).reason,
               Contains("and the image has none; berth sign --key KEY IMAGE makes one"));
    CHECK_THAT(verdict(by_key(key), {signed_payload(stranger, manifest, "h.x/a:1")}).reason,
               Contains("by another key"));
    CHECK_THAT(verdict(by_key(key), {signed_payload(key, other, "h.x/a:1")}).reason, Contains("another manifest"));
    CHECK_THAT(verdict(by_key(key), {signed_payload(key, manifest, "h.x/a:2")}).reason,
               Contains("matchExact takes no such for h.x/a:1"));
    CHECK(verdict(by_key(key, "matchRepository"), {signed_payload(key, manifest, "h.x/a:2")}).allowed);
}

TEST_CASE("a change of any byte of a payload or a signature refuses it", "[trust]") {
    PrivateKey key = make_key("P-256");
    Signature whole = signed_payload(key, manifest, "h.x/a:1");
    std::string requirement = by_key(key);
    for (size_t i = 0; i < whole.content.size(); ++i) {
        Signature one = whole;
        one.content[i] = static_cast<char>(one.content[i] ^ 0x10);
        CHECK_FALSE(verdict(requirement, {one}).allowed);
    }
    // Of its bytes: the last character of their base64 has bits that belong to none.
    const std::string bytes = berth::oci::decode_base64(whole.signature).value();
    for (size_t i = 0; i < bytes.size(); ++i) {
        Signature one = whole;
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ 0x10);
        one.signature = berth::oci::encode_base64(changed);
        CHECK_FALSE(verdict(requirement, {one}).allowed);
    }
}

TEST_CASE("all requirements have to hold", "[trust]") {
    PrivateKey first = make_key("P-256"), second = make_key("ED25519");
    std::string both = by_key(first) + "," + by_key(second);
    std::vector<Signature> signatures{signed_payload(first, manifest, "h.x/a:1")};
    CHECK_FALSE(verdict(both, signatures).allowed);
    signatures.push_back(signed_payload(second, manifest, "h.x/a:1"));
    Verdict good = verdict(both, signatures);
    CHECK(good.allowed);
    CHECK(good.signers.size() == 2);
    CHECK_THAT(verdict(both + R"(,{"type":"reject"})", signatures).reason, Contains("refuses such images"));
    CHECK(verdict(R"({"type":"insecureAcceptAnything"})", {}).allowed);
    CHECK_THAT(verdict(R"({"type":"sigstoreSigned","keyPath":"/k","rekorPublicKeyPath":"/r"})", signatures).reason,
               Contains("sigstoreSigned with rekorPublicKey, which is not supported yet"));
    CHECK_THAT(failure([&] { verdict(R"({"type":"sigstoreSigned","keyPath":"/k"})", signatures); }),
               Contains("reading /k"));
}

TEST_CASE("bundles count by the name in their statement", "[trust]") {
    PrivateKey key = make_key("P-256");
    std::string requirement = by_key(key);
    CHECK(verdict(requirement, {signed_bundle(key, manifest, "h.x/a:1")}).allowed);
    CHECK_THAT(verdict(requirement, {signed_bundle(key, manifest, "h.x/a:2")}).reason, Contains("for the name"));
    CHECK_THAT(verdict(requirement, {signed_bundle(key, other, "h.x/a:1")}).reason, Contains("another manifest"));
    CHECK_THAT(verdict(requirement, {signed_bundle(key, manifest, "")}).reason, Contains("names no image"));
    CHECK(verdict(requirement, {signed_bundle(key, manifest, "")}, true).allowed);
    CHECK_FALSE(verdict(requirement, {signed_bundle(key, other, "")}, true).allowed);
    CHECK_THAT(verdict(requirement, {signed_bundle(key, manifest, "h.x/a:1", "https://slsa.dev/provenance/v1")}).reason,
               Contains("is no signature"));
    CHECK_THAT(verdict(requirement, {signed_bundle(make_key("P-256"), manifest, "h.x/a:1")}).reason,
               Contains("by another key"));
    Signature certificate = signed_bundle(key, manifest, "h.x/a:1");
    certificate.content.replace(certificate.content.find("publicKey"), 9, "certificate");
    CHECK_THAT(verdict(requirement, {certificate}).reason, Contains("not supported yet"));
}

TEST_CASE("a bundle over the manifest's bytes names nothing", "[trust]") {
    PrivateKey key = make_key("P-256");
    auto message = [&](const Digest& digest) {
        auto bytes = berth::oci::sha256_bytes(document);
        std::string raw(bytes.begin(), bytes.end());
        if (digest != manifest) raw[0] = static_cast<char>(raw[0] ^ 1);
        return Signature{Signature::Kind::bundle,
                         cat(R"({"mediaType":")", bundle_type, R"(","verificationMaterial":{"publicKey":{}},)",
                             R"("messageSignature":{"messageDigest":{"algorithm":"SHA2_256","digest":")",
                             berth::oci::encode_base64(raw), R"("},"signature":")",
                             berth::oci::encode_base64(key.sign(document)), R"("}})"),
                         "", "referrer x"};
    };
    CHECK_FALSE(verdict(by_key(key), {message(manifest)}).allowed);
    CHECK(verdict(by_key(key), {message(manifest)}, true).allowed);
    CHECK_FALSE(verdict(by_key(key), {message(other)}, true).allowed);
    CHECK_FALSE(verdict(by_key(make_key("P-256")), {message(manifest)}, true).allowed);
}

TEST_CASE("attachments are found in cosign's manifest, and one is added to it", "[trust]") {
    NewAttachment first = with_signature("", "{}", "sig", "m");
    NewAttachment both = with_signature(first.manifest, "{\"a\":1}", "other", "m");
    CHECK_THROWS_WITH(
        with_signature(R"({"schemaVersion":2,"layers":[{"mediaType":"other","size":7}]})", "{}", "x", "m"),
        Catch::StartsWith("m: the digest"));
    auto found = parse_attachments(both.manifest, "m");
    REQUIRE(found.size() == 2);
    CHECK(found[0].blob.digest == berth::oci::sha256_of("{}"));
    CHECK(found[0].signature == berth::oci::encode_base64("sig"));
    CHECK(found[1].blob.size == 7);
    CHECK(signature_tag(manifest) == "sha256-" + manifest.hex() + ".sig");
    auto read = [](const std::string& text) { return failure([&] { parse_attachments(text, "m"); }); };
    CHECK_THAT(read(R"({"schemaVersion":1,"layers":[]})"), Contains("schemaVersion is not 2"));
    CHECK_THAT(read(R"({"schemaVersion":2,"layers":{}})"), Contains("is not a list"));
    std::string many;
    for (size_t i = 0; i <= attachment_limit; ++i) many += i == 0 ? "{}" : ",{}";
    CHECK_THAT(read(R"({"schemaVersion":2,"layers":[)" + many + "]}"), Contains("more than 64 elements"));
    std::string big = first.manifest;
    big.replace(big.find("\"size\":2"), 8, "\"size\":262145");
    CHECK_THAT(read(big), Contains("more than 262144 bytes"));
}

TEST_CASE("referrers with signatures are found, others passed over", "[trust]") {
    auto entry = [](const std::string& type, const Digest& digest) {
        return R"({"mediaType":"application/vnd.oci.image.manifest.v1+json","size":9,"digest":")" + digest.text() +
               R"(","artifactType":")" + type + "\"}";
    };
    auto found = parse_referrers(R"({"schemaVersion":2,"manifests":[)" + entry(bundle_type, manifest) + "," +
                                     entry("application/spdx+json", other) + "]}",
                                 "list");
    REQUIRE(found.size() == 1);
    CHECK(found[0].digest == manifest);
    CHECK_THAT(failure([] { parse_referrers("{}", "list"); }), Contains("\"schemaVersion\" is missing"));
}

TEST_CASE("what gpgv says is one good signature, or it is none", "[trust]") {
    std::string key(40, 'A'), primary(40, 'B');
    std::string good = "[GNUPG:] NEWSIG\n[GNUPG:] KEY_CONSIDERED " + key + " 0\n[GNUPG:] GOODSIG AAAA x <y@z>\n";
    std::string valid = "[GNUPG:] VALIDSIG " + key + " 2026-01-01 1 0 4 0 1 10 00 " + primary + "\n";
    CHECK(signer_of_status(good + valid, "signature") == primary);
    auto refused = [](const std::string& text) { return failure([&] { signer_of_status(text, "signature"); }); };
    CHECK_THAT(refused(good), Contains("0 good signatures") || Contains("1 good signatures"));
    CHECK_THAT(refused(good + valid + good + valid), Contains("2 good signatures"));
    CHECK_THAT(refused("[GNUPG:] EXPKEYSIG AAAA x\n" + good + valid), Contains("the key has expired"));
    CHECK_THAT(refused("[GNUPG:] REVKEYSIG AAAA x\n" + valid), Contains("revoked"));
    CHECK_THAT(refused("[GNUPG:] BADSIG AAAA x\n"), Contains("not one of these bytes"));
    CHECK_THAT(refused("[GNUPG:] ERRSIG AAAA 1 10 00 1 9 -\n"), Contains("cannot be checked"));
    // What a signer's name says is no line of gpgv's.
    CHECK_THAT(refused("[GNUPG:] GOODSIG AAAA VALIDSIG " + key + "\n"), Contains("good signatures instead"));
    CHECK_THAT(refused(""), Contains("0 good signatures"));
}

TEST_CASE("a key in ASCII armor is the packets in it", "[trust]") {
    std::string block = "-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: x\n\nYWJj\nZGVm\n=abcd\n"
                        "-----END PGP PUBLIC KEY BLOCK-----\n";
    CHECK(keyring_packets(block, "k") == "abcdef");
    CHECK(keyring_packets("text before\n" + block + block, "k") == "abcdefabcdef");
    CHECK(keyring_packets("\x99\x01raw", "k") == "\x99\x01raw");
    CHECK_THAT(failure([&] { keyring_packets(block.substr(0, 60), "k"); }), Contains("armor is broken"));
}

TEST_CASE("registries.d says where GPG signatures lie", "[trust]") {
    Lookaside both = parse_lookaside({{"a.yaml", "default-docker:\n  lookaside: file:///all\n"},
                                      {"b.yaml",
                                       "docker:\n  h.x/a:\n    lookaside: https://l.x/sigs\n  h.x:\n    sigstore: "
                                       "file:///old\n  h.x/w:\n    lookaside-staging: file:///w\n"}});
    auto address = [&](const char* name) {
        return lookaside_of(both, subject_of(*parse_image_name(name)), "file:///b");
    };
    CHECK(address("h.x/a:1") == "https://l.x/sigs/a");
    CHECK(address("h.x/a/b:1") == "https://l.x/sigs/a/b");
    CHECK(address("h.x/c:1") == "file:///old/c");
    CHECK(address("h.x/w:1") == "file:///old/w");
    CHECK(address("debian:1") == "file:///all/library/debian");
    CHECK(lookaside_of({}, subject_of(*parse_image_name("h.x/a:1")), "file:///b") == "file:///b/a");
    CHECK(signature_url("file:///b/a", manifest, 2) == "file:///b/a@sha256=" + manifest.hex() + "/signature-2");
    CHECK(path_of_url("file:///a") == "/a");
    CHECK_FALSE(path_of_url("https://a"));
    auto read = [](const std::vector<NamedText>& files) { return failure([&] { parse_lookaside(files); }); };
    CHECK_THAT(read({{"a", "default-docker: {}"}, {"b", "default-docker: {}"}}), Contains("in another file too"));
    CHECK_THAT(read({{"a", "docker: {h.x: {}, h.x: {}}"}}), Contains("twice"));
    CHECK_THAT(read({{"a", "docker: [1]"}}), Contains("is no mapping"));
    CHECK_THAT(read({{"a", "docker: {h.x: {lookaside: [1]}}"}}), Contains("is no text"));
    CHECK_THAT(read({{"a", "a: ["}}), Contains("no YAML"));
    CHECK(read({{"a", ""}, {"b", "docker:"}}).empty());
}
