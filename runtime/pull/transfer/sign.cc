#include "runtime/pull/transfer/sign.hh"

#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/trust/policy/image_name.hh"
#include "runtime/trust/signature/attachment.hh"
#include "runtime/trust/signature/payload.hh"

namespace berth::pull {

namespace {

constexpr const char* manifest_type = "application/vnd.oci.image.manifest.v1+json";

std::vector<Digest> manifests_of(const oci::Document& document, const std::string& what) {
    std::vector<Digest> out{document.digest};
    auto parsed = oci::parse_manifest(document.bytes, document.content_type, what);
    if (const auto* index = std::get_if<oci::ImageIndex>(&parsed))
        for (const oci::ImageIndex::Entry& entry : index->entries) out.push_back(entry.descriptor.digest);
    return out;
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
    for (const Digest& digest : signed_ones) attach(registry, {digest, name}, key, what);
    return signed_ones;
}

}  // namespace berth::pull
