// Layers that are published beside an image in the form in which Berth runs them: an artifact of the OCI image
// specification whose subject is the image's manifest. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/manifest.hh"

namespace berth::oci {

inline constexpr const char* artifact_type = "application/vnd.berth.image.v1";
/// A squashfs 4.0 file with the seal of runtime/pull/image/seal.hh behind it.
inline constexpr const char* published_layer_type = "application/vnd.berth.layer.v1.squashfs";
/// See runtime/oci/remainder.
inline constexpr const char* remainder_type = "application/vnd.berth.remainder.v1+zstd";
/// What a start needs that does not wait for its layers (ADR 0151), once an artifact: the index of all layers, laid
/// over one another, as runtime/squash/index makes it, of the release that has published it;
inline constexpr const char* index_type = "application/vnd.berth.index.v1+zstd";
/// the SHA-256 of each MiB of each layer file, 32 bytes each, in the order in which the index has the layers;
inline constexpr const char* sums_type = "application/vnd.berth.sums.v1";
/// and numbers of such MiBs, 4 bytes each, little-endian, in the order in which a start reads them.
inline constexpr const char* profile_type = "application/vnd.berth.profile.v1";
/// Of both halves of a layer: which layer they belong to.
inline constexpr const char* diff_id_annotation = "vnd.berth.diff-id";
/// Of the artifact: the repository of its image.
inline constexpr const char* image_annotation = "vnd.berth.image";

struct PublishedLayer {
    Digest diff_id;
    Descriptor squashfs;
    Descriptor remainder;
};

struct Artifact {
    Descriptor subject;                  ///< the image's manifest
    std::string image;                   ///< its REGISTRY/NAME; empty when the artifact does not say
    std::vector<PublishedLayer> layers;  ///< not always all of the image's
    /// Only where all layers are there.
    std::optional<Descriptor> index = {}, sums = {}, profile = {};

    /// Null when the layer is not among them.
    const PublishedLayer* find(const Digest& diff_id) const;
};

/// "sha256-HEX.berth": where an artifact of the manifest is, so that one request finds it at any registry.
std::string artifact_tag(const Digest& manifest);
/// Whether a tag is of that form.
bool is_artifact_tag(std::string_view tag);

/// The content of the artifact's config, which says nothing.
inline constexpr std::string_view empty_config = "{}";
/// The bytes of the artifact's manifest, which parse_artifact() reads: the same for the same artifact.
std::string make_artifact(const Artifact& artifact);

/// "sha256-HEX": where a registry without the referrers API has the list of what refers to a manifest (distribution
/// specification, referrers tag schema).
std::string referrers_tag(const Digest& manifest);
/// That list with our artifact, in place of one of ours before. `old` is the list so far, or empty. Throws Error naming
/// `what` when it is none.
std::string with_referrer(std::string_view old, const Descriptor& artifact, const std::string& what);
/// The list without any of ours: `old` where none is in it, and empty where nothing else is. Throws Error.
std::string without_referrer(const std::string& old, const std::string& what);

/// Layers of types that this release does not know, and those that lack a half, are left out. Throws Error naming
/// `what` for what is no artifact of ours.
Artifact parse_artifact(std::string_view text, const std::string& what);

}  // namespace berth::oci
