#include "runtime/trust/signature/payload.hh"

#include <cmath>

#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/trust/policy/strict_json.hh"

namespace berth::trust {

namespace {

const char* type_of(PayloadKind kind) {
    return kind == PayloadKind::cosign ? "cosign container image signature" : "atomic container signature";
}

/// Annotations of others are theirs; these two have a meaning.
void check_optional(const JsonPlace& place, PayloadKind kind) {
    // cosign writes null for none.
    if (kind == PayloadKind::cosign && place.value.is_null()) return;
    place.must_be_object();
    if (place.has("creator")) place.text("creator");
    if (!place.has("timestamp") || place.value.at("timestamp").is_null()) return;
    JsonPlace time = place.at("timestamp");
    if (!time.value.is_number()) time.fail("is no number");
    auto seconds = time.value.get<double>();
    if (seconds != std::trunc(seconds) || std::abs(seconds) >= 9.2e18) time.fail("is no whole number of seconds");
}

/// An object with exactly one key.
JsonPlace only_member(const JsonPlace& place, const char* key) {
    place.allow({key});
    return place.at(key);
}

}  // namespace

Claim parse_payload(std::string_view text, PayloadKind kind, const std::string& what) {
    nlohmann::json document = oci::parse_json(text, what);
    JsonPlace root{document, what};
    root.allow({"critical", "optional"});
    check_optional(root.at("optional"), kind);
    JsonPlace critical = root.at("critical");
    critical.allow({"type", "image", "identity"});
    std::string type = critical.text("type");
    if (type != type_of(kind))
        critical.fail(cat("the type is \"", printable(type, 64), "\", not \"", type_of(kind), "\""));
    std::string digest = only_member(critical.at("image"), "docker-manifest-digest").text();
    auto manifest = Digest::parse(digest);
    if (!manifest) critical.fail(cat("\"", printable(digest), "\" is no sha256 digest"));
    return {*manifest, only_member(critical.at("identity"), "docker-reference").text()};
}

std::string make_payload(const Claim& claim, int64_t time) {
    return nlohmann::json{{"critical",
                           {{"type", type_of(PayloadKind::cosign)},
                            {"image", {{"docker-manifest-digest", claim.manifest.text()}}},
                            {"identity", {{"docker-reference", claim.name}}}}},
                          {"optional", {{"creator", "berth " BERTH_VERSION}, {"timestamp", time}}}}
        .dump();
}

}  // namespace berth::trust
