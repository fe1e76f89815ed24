// The table of policies with their verdicts, tests/signatures/policies.json. The same table is compared with skopeo by
// tests/signatures/compare.py. What is outside of the process stands in here: GPG's messages are "KEY\nTEXT".
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/trust/judge.hh"
#include "tests/catch.hh"
#include "tests/unit/trust_keys.hh"

using namespace berth;
using nlohmann::json;

namespace {

const Digest manifest = oci::sha256_of("the image"), other = oci::sha256_of("another image");

std::string text_of_file(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
}

struct Keys {
    std::map<std::string, std::string> texts;
    std::map<std::string, std::string> files;

    Keys() {
        for (const auto& [name, kind] :
             {std::pair{"a", "P-256"}, {"b", "P-256"}, {"rsa", "RSA"}, {"ed", "ED25519"}, {"p384", "P-384"}}) {
            texts[name] = test::make_key_text(kind);
            files[cat("/keys/", name, ".pub")] = trust::PrivateKey(texts[name], name).public_key().pem();
        }
        for (const char* name : {"g", "h"}) files[cat("/keys/", name, ".gpg")] = cat("gpg-", name);
        files["/keys/bad.pub"] = "no key";
        files["/keys/g.asc"] = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n" + oci::encode_base64("gpg-g") +
                               "\n-----END PGP PUBLIC KEY BLOCK-----\n";
    }
    std::string read(const std::string& path) const {
        auto found = files.find(path);
        if (found == files.end()) throw Error("reading " + path + ": there is none");
        return found->second;
    }
    /// What a policy has in place of a file.
    std::string data(const std::string& name) const {
        auto found = files.find(cat("/keys/", name, ".pub"));
        return oci::encode_base64(found == files.end() ? files.at(cat("/keys/", name, ".gpg")) : found->second);
    }
};

std::string filled(std::string text, const Keys& keys) {
    std::vector<std::pair<std::string, std::string>> words{
        {"@HOST@", "127.0.0.1:5000"}, {"@KEYS@", "/keys"}, {"@DIGEST@", manifest.text()}};
    for (const char* name : {"a", "b", "g"}) words.emplace_back(cat("@DATA:", name, "@"), keys.data(name));
    for (const auto& [word, value] : words)
        for (size_t at; (at = text.find(word)) != text.npos;) text.replace(at, word.size(), value);
    return text;
}

std::string payload_of(const json& signature) {
    bool gpg = signature.at("kind") == "gpg";
    json out{
        {"critical",
         {{"type", signature.value("type", gpg ? "atomic container signature" : "cosign container image signature")},
          {"image", {{"docker-manifest-digest", signature.at("of") == "image" ? manifest.text() : other.text()}}},
          {"identity", {{"docker-reference", signature.at("name")}}}}},
        {"optional", signature.contains("optional") ? signature.at("optional") : json::object()}};
    if (signature.contains("extra")) out["extra"] = true;
    return out.dump();
}

trust::Signature made(const json& signature, const Keys& keys) {
    std::string payload = payload_of(signature), key = signature.at("key");
    if (signature.at("kind") == "gpg") return {trust::Signature::Kind::gpg, key + "\n" + payload, "", "signature-1"};
    return {trust::Signature::Kind::payload, payload,
            oci::encode_base64(trust::PrivateKey(keys.texts.at(key), key).sign(payload)), "a tag"};
}

trust::Means::GpgText checked(const std::vector<std::string>& keyrings, const std::string& message) {
    size_t end = message.find('\n');
    std::string key = message.substr(0, end);
    for (const std::string& keyring : keyrings)
        if (keyring == "gpg-" + key) return {message.substr(end + 1), key};
    throw Error("the signature: by another key");
}

std::string verdict_of(const json& one, const Keys& keys) {
    std::string text = one.contains("text") ? one.at("text").get<std::string>() : one.at("policy").dump();
    trust::Policy policy;
    try {
        policy = trust::parse_policy(filled(text, keys), "policy");
    } catch (const Error&) {
        return "invalid";
    }
    std::vector<trust::Signature> signatures;
    for (const json& signature : one.at("signatures"))
        signatures.push_back(made(json::parse(filled(signature.dump(), keys)), keys));
    auto name = trust::parse_image_name(filled(one.at("image").get<std::string>(), keys));
    trust::Candidate image{trust::subject_of(name.value()), manifest};
    try {
        auto read = [&](const std::string& path) { return keys.read(path); };
        return trust::judge(trust::rule_for(policy, image.subject), image, signatures, {read, checked}).allowed
                   ? "accept"
                   : "refuse";
    } catch (const Error&) {
        return "refuse";
    }
}

}  // namespace

TEST_CASE("each policy of the table has its verdict", "[trust]") {
    Keys keys;
    json table = json::parse(text_of_file("tests/signatures/policies.json"));
    CHECK(table.size() >= 80);
    for (const json& one : table) {
        CAPTURE(one.at("name").get<std::string>());
        CHECK(verdict_of(one, keys) == one.at("verdict").get<std::string>());
    }
}
