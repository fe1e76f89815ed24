#include "runtime/pull/publish/sign.hh"

#include <algorithm>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/pull/image/signature_sources.hh"
#include "runtime/trust/policy/image_name.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/payload.hh"

namespace berth::pull {

namespace {

constexpr const char* manifest_type = "application/vnd.oci.image.manifest.v1+json";

std::vector<Digest> manifests_of(const oci::Document& document, const std::string& what) {
    std::vector<Digest> out{document.digest};
    // An artifact's, such as that of published layers, is signed like an image's.
    if (oci::kind_of(document.content_type) == oci::MediaKind::manifest) return out;
    auto parsed = oci::parse_manifest(document.bytes, document.content_type, what);
    const auto* index = std::get_if<oci::ImageIndex>(&parsed);
    if (index == nullptr) return out;
    // Who signs an index means all of it.
    if (!index->unreadable.empty()) throw Error(index->unreadable[0].problem);
    for (const oci::ImageIndex::Entry& entry : index->entries) out.push_back(entry.descriptor.digest);
    return out;
}

/// Each signature stays at the image's tag: a list of images that is signed every night must not make more of them.
bool has_signed(oci::Registry& registry, const trust::Claim& claim, const trust::PublicKey& key) {
    auto is_ours = [&](const trust::Signature& one) {
        auto signature = oci::decode_base64(one.signature);
        if (one.kind != trust::Signature::Kind::payload || !signature || !key.verifies(one.content, *signature))
            return false;
        trust::Claim said = trust::parse_payload(one.content, trust::PayloadKind::cosign, "a signature of this key");
        return said.manifest == claim.manifest && said.name == claim.name;
    };
    std::vector<trust::Signature> all = tagged_signatures(registry, claim.manifest, [](const std::string&) {});
    return std::any_of(all.begin(), all.end(), is_ours);
}

void attach(oci::Registry& registry, const trust::Claim& claim, const trust::PrivateKey& key, const std::string& what) {
    std::string tag = trust::signature_tag(claim.manifest);
    std::string payload = trust::make_payload(claim, static_cast<int64_t>(::time(nullptr)));
    auto old = registry.find_attached(tag);
    trust::NewAttachment made =
        trust::with_signature(old ? old->bytes : "", payload, key.sign(payload), cat(what, ": the manifest at ", tag));
    registry.put_blob(payload);
    registry.put_blob(made.config);
    registry.put_manifest(tag, manifest_type, made.manifest);
}

}  // namespace

std::vector<Digest> sign_image(const plan::Reference& reference, const trust::PrivateKey& key,
                               const oci::RegistryOptions& options) {
    std::string what = cat("image ", printable(reference.text(), 1024));
    if (reference.kind != plan::Reference::Kind::registry)
        throw Error(cat(what, ": only images of registries are signed; push it to one"));
    oci::Registry registry(reference, options);
    oci::Document document = registry.get_manifest(reference.digest ? reference.digest->text() : reference.tag);
    std::vector<Digest> signed_ones = manifests_of(document, what);
    std::string name = trust::name_of(reference).text();
    for (const Digest& digest : signed_ones)
        if (!has_signed(registry, {digest, name}, key.public_key())) attach(registry, {digest, name}, key, what);
    return signed_ones;
}

}  // namespace berth::pull
