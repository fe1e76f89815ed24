#include "runtime/oci/sif_artifact.hh"

#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/media_type.hh"

namespace berth::oci {

using nlohmann::json;

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
