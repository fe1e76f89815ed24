#include "runtime/oci/artifact.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/descriptor.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/sha256.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

constexpr std::string_view artifact_tag_end = ".berth";
constexpr const char* empty_type = "application/vnd.oci.empty.v1+json";

json blob_json(const Descriptor& blob, const Digest& diff_id) {
    json out = descriptor_json(blob);
    out["annotations"] = {{diff_id_annotation, diff_id.text()}};
    return out;
}

std::optional<Digest> diff_id_of(const json& blob, const std::string& what) {
    const json* annotations = object_member(blob, "annotations", what);
    return annotations == nullptr ? std::nullopt
                                  : Digest::parse(string_member(*annotations, diff_id_annotation, what).value_or(""));
}

/// The blob of which an artifact has one of this type; null for other types.
std::optional<Descriptor>* single_blob(Artifact& artifact, const std::string& type) {
    if (type == index_type) return &artifact.index;
    if (type == sums_type) return &artifact.sums;
    return type == profile_type ? &artifact.profile : nullptr;
}

/// Both halves of each layer that a blob of the artifact belongs to, and what there is once.
void take_blob(Artifact& out, const json& blob, const std::string& what) {
    Descriptor descriptor = parse_descriptor(blob, what);
    if (auto* single = single_blob(out, descriptor.media_type)) {
        if (*single) throw Error(cat(what, ": ", descriptor.media_type, " is there twice"));
        *single = std::move(descriptor);
        return;
    }
    bool is_layer = descriptor.media_type == published_layer_type;
    if (!is_layer && descriptor.media_type != remainder_type) return;
    auto diff_id = diff_id_of(blob, what);
    if (!diff_id) throw Error(cat(what, ": ", descriptor.digest, " does not say which layer it belongs to"));
    auto layer = std::ranges::find(out.layers, *diff_id, &PublishedLayer::diff_id);
    if (layer == out.layers.end()) layer = out.layers.insert(layer, {*diff_id, {"", *diff_id}, {"", *diff_id}});
    Descriptor& half = is_layer ? layer->squashfs : layer->remainder;
    if (!half.media_type.empty()) throw Error(cat(what, ": the layer ", *diff_id, " is there twice"));
    half = std::move(descriptor);
}

/// The entries of a list of referrers that are not ours.
json others_referrers(const json& document, const std::string& what) {
    if (!document.is_object()) throw Error(cat(what, ": it is no list of manifests"));
    json out = json::array();
    if (const json* known = array_member(document, "manifests", what))
        for (const json& one : *known)
            if (string_member(one, "artifactType", what).value_or("") != artifact_type) out.push_back(one);
    return out;
}

std::string referrers_list(const json& manifests) {
    return json{{"schemaVersion", 2}, {"mediaType", media_type(MediaKind::index)}, {"manifests", manifests}}.dump();
}

std::string image_of(const json& document, const std::string& what) {
    const json* annotations = object_member(document, "annotations", what);
    return annotations == nullptr ? "" : string_member(*annotations, image_annotation, what).value_or("");
}

}  // namespace

const PublishedLayer* Artifact::find(const Digest& diff_id) const {
    auto found = std::ranges::find(layers, diff_id, &PublishedLayer::diff_id);
    return found == layers.end() ? nullptr : &*found;
}

std::string referrers_tag(const Digest& manifest) { return "sha256-" + manifest.hex(); }
std::string artifact_tag(const Digest& manifest) { return cat(referrers_tag(manifest), artifact_tag_end); }

bool is_artifact_tag(std::string_view tag) {
    constexpr std::string_view start = "sha256-";
    if (!tag.starts_with(start) || !tag.ends_with(artifact_tag_end)) return false;
    tag.remove_prefix(start.size()), tag.remove_suffix(artifact_tag_end.size());
    return Digest::from_hex(std::string(tag)).has_value();
}

std::string with_referrer(std::string_view old, const Descriptor& artifact, const std::string& what) {
    json manifests = old.empty() ? json::array() : others_referrers(parse_json(old, what), what);
    json mine = descriptor_json(artifact);
    mine["artifactType"] = artifact_type;
    manifests.push_back(std::move(mine));
    return referrers_list(manifests);
}

std::string without_referrer(const std::string& old, const std::string& what) {
    json document = parse_json(old, what);
    json manifests = others_referrers(document, what);
    const json* all = array_member(document, "manifests", what);
    if (all != nullptr && all->size() == manifests.size()) return old;
    return manifests.empty() ? "" : referrers_list(manifests);
}

std::string make_artifact(const Artifact& artifact) {
    json blobs = json::array();
    for (const PublishedLayer& layer : artifact.layers) {
        blobs.push_back(blob_json(layer.squashfs, layer.diff_id));
        blobs.push_back(blob_json(layer.remainder, layer.diff_id));
    }
    for (const auto& single : {artifact.index, artifact.sums, artifact.profile})
        if (single) blobs.push_back(descriptor_json(*single));
    json out{{"schemaVersion", 2},
             {"mediaType", media_type(MediaKind::manifest)},
             {"artifactType", artifact_type},
             {"config", descriptor_json({empty_type, sha256_of(empty_config), empty_config.size()})},
             {"layers", blobs},
             {"subject", descriptor_json(artifact.subject)}};
    if (!artifact.image.empty()) out["annotations"] = {{image_annotation, artifact.image}};
    return out.dump();
}

Artifact parse_artifact(std::string_view text, const std::string& what) {
    json document = parse_json(text, what);
    if (!document.is_object() || string_member(document, "artifactType", what).value_or("") != artifact_type)
        throw Error(cat(what, ": it is no ", artifact_type));
    const json* subject = object_member(document, "subject", what);
    const json* blobs = array_member(document, "layers", what);
    if (subject == nullptr || blobs == nullptr) throw Error(cat(what, ": it has no subject, or no layers"));
    if (blobs->size() > 2 * layer_limit + 3) throw Error(cat(what, ": more than ", layer_limit, " layers"));
    Artifact out{parse_descriptor(*subject, what), image_of(document, what), {}, {}, {}, {}};
    for (const json& blob : *blobs) take_blob(out, blob, what);
    std::erase_if(out.layers, [](const PublishedLayer& layer) {
        return layer.squashfs.media_type.empty() || layer.remainder.media_type.empty();
    });
    return out;
}

}  // namespace berth::oci
