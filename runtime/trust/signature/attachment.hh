// How signatures are attached to images in registries: cosign's manifest at the tag sha256-HEX.sig, and the referrers
// of the distribution specification. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/manifest.hh"

namespace berth::trust {

inline constexpr size_t attachment_limit = 64;             ///< signatures that are looked at of one image
inline constexpr uint64_t attachment_bytes = 256 << 10;    ///< of one payload or bundle
inline constexpr const char* payload_type = "application/vnd.dev.cosign.simplesigning.v1+json";
inline constexpr const char* signature_annotation = "dev.cosignproject.cosign/signature";

/// A blob that is, or belongs to, a signature.
struct Attachment {
    oci::Descriptor blob;
    std::string signature;  ///< base64, of a payload; empty for a bundle
};

/// "sha256-HEX.sig"
std::string signature_tag(const Digest& manifest);

/// The signatures among the layers of cosign's manifest, or of a referrer that has bundles. Other layers are passed
/// over. Throws Error naming `what` for what is no manifest, and for more than attachment_limit layers.
std::vector<Attachment> parse_attachments(std::string_view manifest, const std::string& what);

/// The manifests that may have signatures, of a list of referrers. Throws Error naming `what`.
std::vector<oci::Descriptor> parse_referrers(std::string_view index, const std::string& what);

/// cosign's manifest with one more signature: `old` is the manifest so far, or empty. `payload` and `config` are the
/// blobs that it leads to. Throws Error naming `what` when `old` is none.
struct NewAttachment {
    std::string manifest;
    std::string config;
};
NewAttachment with_signature(std::string_view old, const std::string& payload, const std::string& signature,
                             const std::string& what);

}  // namespace berth::trust
