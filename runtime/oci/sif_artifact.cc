#include "runtime/oci/sif_artifact.hh"

#include <map>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/sha256.hh"

namespace berth::oci {

using nlohmann::json;
using nlohmann::ordered_json;

std::string make_sif_artifact(const Descriptor& file, const std::string& name,
                              const std::vector<std::string>& annotations) {
    // In the order of github.com/google/go-containerregistry, pkg/v1/manifest.go.
    auto descriptor = [](std::string_view type, uint64_t size, const Digest& digest) {
        return ordered_json{{"mediaType", type}, {"size", size}, {"digest", digest.text()}};
    };
    ordered_json config = descriptor(sif_config_type, empty_config.size(), sha256_of(empty_config));
    config["data"] = encode_base64(empty_config);
    ordered_json layer = descriptor(sif_layer_type, file.size, file.digest);
    layer["annotations"] = {{"org.opencontainers.image.title", name}};
    ordered_json out{{"schemaVersion", 2},
                     {"mediaType", media_type(MediaKind::manifest)},
                     {"config", config},
                     {"layers", ordered_json::array({layer})}};
    std::map<std::string, std::string> sorted;
    for (const std::string& text : annotations)
        sorted[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
    if (!sorted.empty()) out["annotations"] = sorted;
    return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

Descriptor parse_sif_artifact(std::string_view manifest, const std::string& what) {
    if (manifest.size() > document_limit)
        throw Error(cat(what, ": the manifest is larger than ", human_bytes(document_limit)));
    json document = parse_json(manifest, what);
    if (!document.is_object()) throw Error(cat(what, ": the manifest is not a JSON object"));
    const json* layers = array_member(document, "layers", what);
    if (layers == nullptr)
        throw Error(cat(what, ": no SIF file, but a list of images or the like; for an image write docker://"));
    if (layers->size() != 1)
        throw Error(cat(what, ": an artifact of ", layers->size(),
                        " parts, where a SIF file is one; for an image write docker://"));
    Descriptor out = parse_descriptor((*layers)[0], what);
    if (out.media_type != sif_layer_type && out.media_type != early_sif_layer_type)
        throw Error(cat(what, ": of type ", printable(out.media_type), ", which is no SIF file",
                        kind_of(out.media_type) == MediaKind::layer ? "; for an image write docker://" : ""));
    return out;
}

}  // namespace berth::oci
