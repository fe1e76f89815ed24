// policy.json, as strict as its reference implementation.
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/trust/policy/policy.hh"
#include "runtime/trust/policy/scopes.hh"
#include "runtime/trust/policy/strict_json.hh"

namespace berth::trust {

namespace {

using Kind = SignedIdentity::Kind;

/// A name and the tag or digest of one image.
std::string exact_reference(const JsonPlace& place) {
    std::string out = place.text();
    auto name = parse_image_name(out);
    if (!name) place.fail(cat("\"", printable(out), "\" is no image reference"));
    if (name->is_name_only()) place.fail(cat("\"", printable(out), "\" has neither a tag nor a digest"));
    return out;
}

std::string repository(const JsonPlace& place) {
    std::string out = place.text();
    if (!parse_image_name(out)) place.fail(cat("\"", printable(out), "\" is no image reference"));
    return out;
}

std::string prefix(const JsonPlace& place) {
    std::string out = place.text();
    if (!is_name_prefix(out)) place.fail(cat("\"", printable(out), "\" is no host and no repository"));
    return out;
}

SignedIdentity read_identity(const JsonPlace& place) {
    place.must_be_object();
    std::string type = place.text("type");
    if (type == "exactReference") {
        place.allow({"type", "dockerReference"});
        return {Kind::exact_reference, exact_reference(place.at("dockerReference"))};
    }
    if (type == "exactRepository") {
        place.allow({"type", "dockerRepository"});
        return {Kind::exact_repository, repository(place.at("dockerRepository"))};
    }
    if (type == "remapIdentity") {
        place.allow({"type", "prefix", "signedPrefix"});
        return {Kind::remap_identity, prefix(place.at("prefix")), prefix(place.at("signedPrefix"))};
    }
    place.allow({"type"});
    if (type == "matchExact") return {Kind::match_exact};
    if (type == "matchRepository") return {Kind::match_repository};
    if (type != "matchRepoDigestOrExact")
        place.fail(cat("the type \"", printable(type, 64), "\" is none of a signedIdentity"));
    return {Kind::match_repo_digest_or_exact};
}

SignedIdentity identity_of(const JsonPlace& place) {
    return place.has("signedIdentity") ? read_identity(place.at("signedIdentity")) : SignedIdentity{};
}

unsigned count_of(const JsonPlace& place, std::initializer_list<const char*> keys) {
    unsigned out = 0;
    for (const char* key : keys) out += place.has(key) && place.value.at(key) != "" && !place.value.at(key).is_null();
    return out;
}

void must_be_one(const JsonPlace& place, std::initializer_list<const char*> keys, const char* which) {
    if (count_of(place, keys) != 1) place.fail(cat("exactly one of ", which, " must be given"));
}

/// One key's texts, whether it is a text or a list of them.
std::vector<std::string> one_or_more(const JsonPlace& place, const char* one, const char* more) {
    std::vector<std::string> out;
    if (place.has(more)) out = place.at(more).texts();
    if (place.has(one) && !place.text(one).empty()) out.push_back(place.text(one));
    return out;
}

KeySources read_keys(const JsonPlace& place) {
    KeySources out{one_or_more(place, "keyPath", "keyPaths"), {}};
    if (place.has("keyData")) out.data.push_back(place.at("keyData").bytes());
    for (size_t i = 0; place.has("keyDatas") && i < place.at("keyDatas").value.size(); ++i)
        out.data.push_back(place.at("keyDatas").at(i).bytes());
    return out;
}

/// Sites may have it in their policy for other programs; what it holds is checked all the same.
void check_fulcio(const JsonPlace& place) {
    place.allow({"caPath", "caData", "oidcIssuer", "subjectEmail"});
    must_be_one(place, {"caPath", "caData"}, "caPath and caData");
    one_or_more(place, "caPath", "");
    if (place.has("caData")) place.at("caData").bytes();
    for (const char* key : {"oidcIssuer", "subjectEmail"})
        if (place.text(key).empty()) place.fail(cat("\"", key, "\" is empty"));
}

void check_pki(const JsonPlace& place) {
    place.allow({"caRootsPath", "caRootsData", "caIntermediatesPath", "caIntermediatesData", "subjectEmail",
                 "subjectHostname"});
    must_be_one(place, {"caRootsPath", "caRootsData"}, "caRootsPath and caRootsData");
    for (const char* key : {"caRootsPath", "caIntermediatesPath", "subjectEmail", "subjectHostname"})
        one_or_more(place, key, "");
    for (const char* key : {"caRootsData", "caIntermediatesData"})
        if (place.has(key)) place.at(key).bytes();
    if (count_of(place, {"caIntermediatesPath", "caIntermediatesData"}) > 1)
        place.fail("caIntermediatesPath and caIntermediatesData cannot both be given");
    if (count_of(place, {"subjectEmail", "subjectHostname"}) == 0)
        place.fail("one of subjectEmail and subjectHostname must be given");
}

void check_rekor(const JsonPlace& place, unsigned sources) {
    if (sources > 1) place.fail("at most one of the keys rekorPublicKey... can be given");
    one_or_more(place, "rekorPublicKeyPath", "rekorPublicKeyPaths");
    if (place.has("rekorPublicKeyData")) place.at("rekorPublicKeyData").bytes();
    if (place.has("fulcio") && sources == 0) place.fail("fulcio needs one of the keys rekorPublicKey...");
    if (place.has("pki") && sources > 0) place.fail("pki and the keys rekorPublicKey... cannot both be given");
}

/// The name of what this release cannot check; empty when it can.
std::string unsupported_part(const JsonPlace& place, unsigned rekor_sources) {
    return place.has("fulcio") ? "fulcio" : place.has("pki") ? "pki" : rekor_sources > 0 ? "rekorPublicKey" : "";
}

void must_not_be_empty(const JsonPlace& list) {
    if (!list.value.is_array() || list.value.empty()) list.fail("is no list with something in it");
}

Requirement read_sigstore(const JsonPlace& place) {
    place.allow({"type", "keyPath", "keyPaths", "keyData", "keyDatas", "fulcio", "pki", "rekorPublicKeyPath",
                 "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas", "signedIdentity"});
    for (const char* key : {"keyPaths", "keyDatas", "rekorPublicKeyPaths", "rekorPublicKeyDatas"})
        if (place.has(key)) must_not_be_empty(place.at(key));
    if (place.has("fulcio")) check_fulcio(place.at("fulcio"));
    if (place.has("pki")) check_pki(place.at("pki"));
    SignedIdentity identity = identity_of(place);
    KeySources keys = read_keys(place);
    bool empty_data = place.has("keyData") && !place.value.at("keyData").is_null() && keys.data.front().empty();
    if (count_of(place, {"keyPath", "keyPaths", "keyData", "keyDatas", "fulcio", "pki"}) + empty_data != 1)
        place.fail("exactly one of keyPath, keyPaths, keyData, keyDatas, fulcio and pki must be given");
    unsigned rekor_sources = count_of(
        place, {"rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas"});
    check_rekor(place, rekor_sources);
    std::string unsupported = unsupported_part(place, rekor_sources);
    if (!unsupported.empty()) return {Requirement::Kind::unsupported, {}, {}, "sigstoreSigned with " + unsupported};
    return {Requirement::Kind::sigstore_signed, std::move(keys), std::move(identity)};
}

Requirement read_signed_by(const JsonPlace& place) {
    place.allow({"type", "keyType", "keyPath", "keyPaths", "keyData", "signedIdentity"});
    std::string type = place.text("keyType");
    bool gpg = type == "GPGKeys";
    if (!gpg && type != "signedByGPGKeys" && type != "X509Certificates" && type != "signedByX509CAs")
        place.fail(cat("the keyType \"", printable(type, 64), "\" is none"));
    SignedIdentity identity = identity_of(place);
    KeySources keys = read_keys(place);
    unsigned present = place.has("keyPath") + place.has("keyPaths") + place.has("keyData");
    bool nothing = (place.has("keyPath") && keys.files.empty()) ||
                   (place.has("keyPaths") && place.value.at("keyPaths").is_null()) ||
                   (place.has("keyData") && place.value.at("keyData").is_null());
    if (present != 1 || nothing) place.fail("exactly one of keyPath, keyPaths and keyData must be given");
    if (!gpg) return {Requirement::Kind::unsupported, {}, {}, "signedBy with keyType " + type};
    return {Requirement::Kind::signed_by, std::move(keys), std::move(identity)};
}

Requirement read_requirement(const JsonPlace& place) {
    place.must_be_object();
    std::string type = place.text("type");
    if (type == "sigstoreSigned") return read_sigstore(place);
    if (type == "signedBy") return read_signed_by(place);
    if (type == "signedBaseLayer") {
        place.allow({"type", "baseLayerIdentity"});
        read_identity(place.at("baseLayerIdentity"));
        return {Requirement::Kind::unsupported, {}, {}, type};
    }
    place.allow({"type"});
    if (type == "insecureAcceptAnything") return {Requirement::Kind::accept_anything};
    if (type != "reject") place.fail(cat("the type \"", printable(type, 64), "\" is none of a requirement"));
    return {Requirement::Kind::reject};
}

Requirements read_requirements(const JsonPlace& place) {
    must_not_be_empty(place);
    Requirements out;
    for (size_t i = 0; i < place.value.size(); ++i) out.push_back(read_requirement(place.at(i)));
    return out;
}

std::map<std::string, Requirements> read_scopes(const JsonPlace& place, const std::string& transport) {
    place.must_be_object();
    std::map<std::string, Requirements> out;
    for (const auto& [scope, value] : place.value.items()) {
        JsonPlace there{value, cat(place.what, ".\"", printable(scope, 1024), "\"")};
        if (std::string mistake = scope_mistake(transport, scope); !mistake.empty()) there.fail(mistake);
        out[scope] = read_requirements(there);
    }
    return out;
}

}  // namespace

Policy parse_policy(std::string_view text, const std::string& what) {
    nlohmann::json document = oci::parse_json(text, what);
    JsonPlace root{document, cat(what, ": policy")};
    root.allow({"default", "transports"});
    Policy out;
    out.fallback = read_requirements(root.at("default"));
    if (!root.has("transports")) return out;
    JsonPlace transports = root.at("transports");
    transports.must_be_object();
    for (const auto& [transport, scopes] : transports.value.items())
        out.transports[transport] =
            read_scopes({scopes, cat(transports.what, ".", printable(transport, 64))}, transport);
    return out;
}

}  // namespace berth::trust
