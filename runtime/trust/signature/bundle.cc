#include "runtime/trust/signature/bundle.hh"

#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/trust/policy/strict_json.hh"

namespace berth::trust {

namespace {

constexpr const char* in_toto = "application/vnd.in-toto+json";
constexpr const char* sign_predicate = "https://sigstore.dev/cosign/sign/v1";
constexpr size_t signature_limit = 16;
constexpr size_t subject_limit = 1024;

JsonPlace list_at(const JsonPlace& place, const char* key, size_t limit) {
    JsonPlace list = place.at(key);
    if (!list.value.is_array() || list.value.empty() || list.value.size() > limit)
        list.fail(cat("is no list of 1 to ", limit, " elements"));
    return list;
}

void read_envelope(const JsonPlace& place, Bundle& out) {
    place.must_be_object();
    std::string type = place.text("payloadType");
    if (type != in_toto) place.fail(cat("the payload is \"", printable(type, 128), "\", not ", in_toto));
    out.statement = place.at("payload").bytes();
    out.signed_bytes = pre_authentication(type, out.statement);
    JsonPlace signatures = list_at(place, "signatures", signature_limit);
    for (size_t i = 0; i < signatures.value.size(); ++i) {
        signatures.at(i).must_be_object();
        out.signatures.push_back(signatures.at(i).at("sig").bytes());
    }
}

void read_message(const JsonPlace& place, Bundle& out) {
    place.must_be_object();
    JsonPlace digest = place.at("messageDigest");
    digest.must_be_object();
    if (digest.text("algorithm") != "SHA2_256") digest.fail("the algorithm is not SHA2_256");
    std::string bytes = digest.at("digest").bytes();
    out.message = Digest::from_hex(
        hex_text({reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()}));
    if (!out.message) digest.fail("has not the 32 bytes of a SHA-256");
    out.signatures.push_back(place.at("signature").bytes());
}

void check_material(const JsonPlace& place) {
    place.must_be_object();
    if (!place.has("publicKey"))
        place.fail("is no publicKey: signatures by certificates (fulcio) are not supported yet");
}

}  // namespace

Bundle parse_bundle(std::string_view text, const std::string& what) {
    nlohmann::json document = oci::parse_json(text, what);
    JsonPlace root{document, what};
    root.allow({"mediaType", "verificationMaterial", "dsseEnvelope", "messageSignature"});
    std::string type = root.text("mediaType");
    if (type != bundle_type) root.fail(cat("the type is \"", printable(type, 128), "\", not ", bundle_type));
    check_material(root.at("verificationMaterial"));
    if (root.has("dsseEnvelope") == root.has("messageSignature"))
        root.fail("not exactly one of dsseEnvelope and messageSignature");
    Bundle out;
    if (root.has("dsseEnvelope"))
        read_envelope(root.at("dsseEnvelope"), out);
    else
        read_message(root.at("messageSignature"), out);
    return out;
}

Statement parse_statement(std::string_view text, const std::string& what) {
    nlohmann::json document = oci::parse_json(text, what);
    JsonPlace root{document, what};
    root.must_be_object();
    std::string type = root.text("_type");
    if (type != "https://in-toto.io/Statement/v1" && type != "https://in-toto.io/Statement/v0.1")
        root.fail(cat("the type \"", printable(type, 128), "\" is none of in-toto's statements"));
    std::string predicate = root.text("predicateType");
    if (predicate != sign_predicate)
        root.fail(cat("the statement is of the kind \"", printable(predicate, 128), "\", which is no signature"));
    Statement out;
    JsonPlace subjects = list_at(root, "subject", subject_limit);
    for (size_t i = 0; i < subjects.value.size(); ++i) {
        JsonPlace subject = subjects.at(i);
        subject.must_be_object();
        auto digest = Digest::from_hex(subject.at("digest").has("sha256") ? subject.at("digest").text("sha256") : "");
        if (digest) out.subjects.push_back({subject.has("name") ? subject.text("name") : "", *digest});
    }
    return out;
}

std::string pre_authentication(std::string_view type, std::string_view payload) {
    return cat("DSSEv1 ", type.size(), " ", type, " ", payload.size(), " ", payload);
}

}  // namespace berth::trust
