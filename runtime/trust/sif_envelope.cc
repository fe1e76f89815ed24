#include "runtime/trust/sif_envelope.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/trust/policy/strict_json.hh"
#include "runtime/trust/signature/bundle.hh"
#include "runtime/trust/signature/key.hh"

namespace berth::trust {

namespace {

constexpr const char* sif_metadata = "application/vnd.sylabs.sif-metadata+json";
constexpr size_t envelope_limit = 16;

}  // namespace

Means::GpgText text_of_envelope(const std::vector<std::string>& keys, const std::string& message) {
    nlohmann::json document = oci::parse_json(message, "the envelope");
    JsonPlace root{document, "the envelope"};
    root.must_be_object();
    std::string type = root.text("payloadType"), payload = root.at("payload").bytes();
    if (type != sif_metadata) root.fail(cat("the payload is \"", printable(type, 128), "\", not ", sif_metadata));
    JsonPlace signatures = root.at("signatures");
    if (!signatures.value.is_array() || signatures.value.size() > envelope_limit)
        signatures.fail(cat("is no list of at most ", envelope_limit, " elements"));
    std::string signed_bytes = pre_authentication(type, payload);
    for (const std::string& pem : keys) {
        PublicKey key(pem, "the key");
        for (size_t i = 0; i < signatures.value.size(); ++i) {
            signatures.at(i).must_be_object();
            if (key.verifies(signed_bytes, signatures.at(i).at("sig").bytes())) return {payload, key.fingerprint()};
        }
    }
    throw Error("the signature: it is by another key");
}

}  // namespace berth::trust
