#include "runtime/trust/signature/attachment.hh"

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/descriptor.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/trust/policy/strict_json.hh"
#include "runtime/trust/signature/bundle.hh"

namespace berth::trust {

using nlohmann::json;

namespace {

constexpr const char* manifest_type = "application/vnd.oci.image.manifest.v1+json";
constexpr const char* config_type = "application/vnd.oci.image.config.v1+json";
constexpr size_t referrer_limit = 1024;

oci::Descriptor read_descriptor(const JsonPlace& place, uint64_t limit) {
    place.must_be_object();
    std::string text = place.text("digest");
    auto digest = Digest::parse(text);
    if (!digest) place.fail(cat("\"", printable(text), "\" is no sha256 digest"));
    const json& size = place.at("size").value;
    if (!size.is_number_unsigned()) place.fail("the size is no number");
    if (size.get<uint64_t>() > limit) place.fail(cat("has more than ", limit, " bytes"));
    return {place.text("mediaType"), *digest, size.get<uint64_t>()};
}

std::optional<std::string> annotation(const JsonPlace& place, const char* key) {
    if (!place.has("annotations") || place.value.at("annotations").is_null()) return std::nullopt;
    JsonPlace all = place.at("annotations");
    all.must_be_object();
    return all.has(key) ? std::optional(all.text(key)) : std::nullopt;
}

std::optional<Attachment> read_layer(const JsonPlace& place) {
    place.must_be_object();
    std::string type = place.text("mediaType");
    if (type == bundle_type) return Attachment{read_descriptor(place, attachment_bytes), ""};
    if (type != payload_type) return std::nullopt;
    auto signature = annotation(place, signature_annotation);
    if (!signature) return std::nullopt;
    return Attachment{read_descriptor(place, attachment_bytes), *signature};
}

/// The elements of a list in a document of version 2.
JsonPlace list_of(const JsonPlace& root, const char* key, size_t limit) {
    root.must_be_object();
    if (root.at("schemaVersion").value != 2) root.fail("the schemaVersion is not 2");
    JsonPlace list = root.at(key);
    if (!list.value.is_array()) list.fail("is not a list");
    if (list.value.size() > limit) list.fail(cat("has more than ", limit, " elements"));
    return list;
}

json descriptor(const std::string& type, const std::string& bytes) {
    return oci::descriptor_json({type, oci::sha256_of(bytes), bytes.size()});
}

}  // namespace

std::string signature_tag(const Digest& manifest) { return cat(oci::referrers_tag(manifest), ".sig"); }

std::vector<Attachment> parse_attachments(std::string_view manifest, const std::string& what) {
    json document = oci::parse_json(manifest, what);
    JsonPlace layers = list_of({document, what}, "layers", attachment_limit);
    std::vector<Attachment> out;
    for (size_t i = 0; i < layers.value.size(); ++i)
        if (auto one = read_layer(layers.at(i))) out.push_back(std::move(*one));
    return out;
}

std::vector<oci::Descriptor> parse_referrers(std::string_view index, const std::string& what) {
    json document = oci::parse_json(index, what);
    JsonPlace manifests = list_of({document, what}, "manifests", referrer_limit);
    std::vector<oci::Descriptor> out;
    for (size_t i = 0; i < manifests.value.size(); ++i) {
        JsonPlace place = manifests.at(i);
        place.must_be_object();
        std::string type = place.has("artifactType") ? place.text("artifactType") : "";
        if (type == bundle_type || type == payload_type || type == "application/vnd.dev.cosign.artifact.sig.v1+json")
            out.push_back(read_descriptor(place, oci::document_limit));
    }
    if (out.size() > attachment_limit)
        throw Error(cat(what, ": lists more than ", attachment_limit, " signatures; refused"));
    return out;
}

NewAttachment with_signature(std::string_view old, const std::string& payload, const std::string& signature,
                             const std::string& what) {
    json layers = json::array();
    if (!old.empty()) {
        parse_attachments(old, what);
        layers = oci::parse_json(old, what).at("layers");
    }
    json layer = descriptor(payload_type, payload);
    layer["annotations"] = {{signature_annotation, oci::encode_base64(signature)}};
    layers.push_back(std::move(layer));
    json diff_ids = json::array();
    for (const json& one : layers) diff_ids.push_back(oci::parse_descriptor(one, what).digest.text());
    std::string config = json{{"architecture", ""}, {"os", ""}, {"config", json::object()},
                              {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}}
                             .dump();
    json out{{"schemaVersion", 2},
             {"mediaType", manifest_type},
             {"config", descriptor(config_type, config)},
             {"layers", layers}};
    return {out.dump(), config};
}

}  // namespace berth::trust
