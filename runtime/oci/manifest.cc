#include "runtime/oci/manifest.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/auth/base64.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::oci {

using nlohmann::json;

const char* const accepted_manifests =
    "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, application/vnd.docker.distribution.manifest.list.v2+json";

namespace {

enum class Kind { manifest, list, schema1, generic, other };

Kind kind_of(std::string_view type) {
    if (type == "application/vnd.oci.image.manifest.v1+json" ||
        type == "application/vnd.docker.distribution.manifest.v2+json")
        return Kind::manifest;
    if (type == "application/vnd.oci.image.index.v1+json" ||
        type == "application/vnd.docker.distribution.manifest.list.v2+json")
        return Kind::list;
    if (type.starts_with("application/vnd.docker.distribution.manifest.v1+")) return Kind::schema1;
    if (type.empty() || type == "application/json" || type == "text/plain" || type == "application/octet-stream")
        return Kind::generic;
    return Kind::other;
}

bool is_config_type(std::string_view type) {
    return type == "application/vnd.oci.image.config.v1+json" ||
           type == "application/vnd.docker.container.image.v1+json";
}

/// The compression is told by the content, so the suffix only has to be one that we can read. Foreign layers are asked
/// of the registry like any other; the URLs in them are never followed.
bool is_layer_type(std::string_view type) {
    for (std::string_view base :
         {"application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.layer.nondistributable.v1.tar"})
        if (type.starts_with(base))
            return type.size() == base.size() || type.substr(base.size()) == "+gzip" ||
                   type.substr(base.size()) == "+zstd";
    for (std::string_view base :
         {"application/vnd.docker.image.rootfs.diff.tar", "application/vnd.docker.image.rootfs.foreign.diff.tar"})
        if (type.starts_with(base))
            return type.size() == base.size() || type.substr(base.size()) == ".gzip" ||
                   type.substr(base.size()) == ".zstd";
    return false;
}

Descriptor parse_descriptor(const json& value, const std::string& what) {
    if (!value.is_object()) throw Error(cat(what, ": a descriptor is not an object"));
    std::string media_type = string_member(value, "mediaType", what).value_or("");
    if (media_type.empty()) throw Error(cat(what, ": a descriptor has no mediaType"));
    std::string text = string_member(value, "digest", what).value_or("");
    auto digest = Digest::parse(text);
    if (!digest)
        throw Error(
            cat(what, ": the digest \"", printable(text), "\" is not sha256: and 64 lower-case hexadecimal digits"));
    Descriptor out{media_type, *digest};
    auto size = value.find("size");
    if (size == value.end() || !size->is_number_unsigned() || size->get<uint64_t>() > INT64_MAX)
        throw Error(cat(what, ": the size of ", out.digest, " is not a whole number of bytes"));
    out.size = size->get<uint64_t>();
    auto data = string_member(value, "data", what);
    if (!data) return out;
    out.data = decode_base64(*data);
    if (!out.data) throw Error(cat(what, ": the inline data of ", out.digest, " is not base64"));
    if (out.data->size() != out.size)
        throw Error(
            cat(what, ": the inline data of ", out.digest, " has ", out.data->size(), " bytes instead of ", out.size));
    return out;
}

Manifest parse_image(const json& document, const std::string& what) {
    const json* config = object_member(document, "config", what);
    if (config == nullptr) throw Error(cat(what, ": the manifest has no config"));
    Manifest out{parse_descriptor(*config, what)};
    if (!is_config_type(out.config.media_type))
        throw Error(cat(what, ": an artifact of type ", printable(out.config.media_type), ", not a container image"));
    if (out.config.size > document_limit)
        throw Error(cat(what, ": its config is larger than ", human_bytes(document_limit)));
    const json& layers = *array_member(document, "layers", what);
    if (layers.size() > layer_limit) throw Error(cat(what, ": more than ", layer_limit, " layers"));
    for (const json& layer : layers) {
        out.layers.push_back(parse_descriptor(layer, what));
        if (!is_layer_type(out.layers.back().media_type))
            throw Error(cat(what, ": the layer ", out.layers.back().digest, " has the type ",
                            printable(out.layers.back().media_type), ", which is not supported"));
    }
    return out;
}

std::optional<Platform> parse_platform(const json& entry, const std::string& what) {
    const json* platform = object_member(entry, "platform", what);
    if (platform == nullptr) return std::nullopt;
    return Platform{string_member(*platform, "os", what).value_or(""),
                    string_member(*platform, "architecture", what).value_or(""),
                    string_member(*platform, "variant", what).value_or("")};
}

ManifestList parse_list(const json& document, const std::string& what) {
    ManifestList out;
    for (const json& entry : *array_member(document, "manifests", what)) {
        Descriptor descriptor = parse_descriptor(entry, what);
        Kind kind = kind_of(descriptor.media_type);
        if (kind == Kind::manifest || kind == Kind::list)
            out.entries.push_back({std::move(descriptor), parse_platform(entry, what)});
    }
    return out;
}

/// Two names for one document must not disagree about what it is.
void check_types(const std::string& media_type, std::string_view content_type, Kind kind, const std::string& what) {
    Kind told = kind_of(content_type);
    Kind inside = kind_of(media_type);
    if (told == Kind::other) throw Error(cat(what, ": of type ", printable(content_type), ", which is no image"));
    bool contradicts = told != Kind::generic && told != kind;
    if (!media_type.empty())
        contradicts = contradicts || inside != kind || (told != Kind::generic && media_type != content_type);
    if (contradicts)
        throw Error(cat(what, ": its types contradict each other: Content-Type \"", printable(content_type),
                        "\", mediaType \"", printable(media_type), "\""));
}

}  // namespace

std::variant<Manifest, ManifestList> parse_manifest(std::string_view text, std::string_view content_type,
                                                    const std::string& what) {
    if (text.size() > document_limit)
        throw Error(cat(what, ": the manifest is larger than ", human_bytes(document_limit)));
    content_type = trimmed(content_type.substr(0, content_type.find(';')));
    json document = parse_json(text, what);
    if (!document.is_object()) throw Error(cat(what, ": the manifest is not a JSON object"));
    auto schema = document.find("schemaVersion");
    bool is_first = kind_of(content_type) == Kind::schema1 || (schema != document.end() && *schema == 1);
    if (is_first)
        throw Error(cat(
            what, ": an image of Docker's manifest schema 1, which is obsolete; push it again with a current tool"));
    if (schema == document.end() || !schema->is_number_integer() || *schema != 2)
        throw Error(cat(what, ": its schemaVersion is not 2"));
    bool has_layers = array_member(document, "layers", what) != nullptr;
    bool has_manifests = array_member(document, "manifests", what) != nullptr;
    if (has_layers && has_manifests)
        throw Error(cat(what, ": has both layers and manifests, so that it could be read in two ways"));
    if (!has_layers && !has_manifests) throw Error(cat(what, ": neither an image manifest nor an image index"));
    check_types(string_member(document, "mediaType", what).value_or(""), content_type,
                has_layers ? Kind::manifest : Kind::list, what);
    if (has_layers) return parse_image(document, what);
    return parse_list(document, what);
}

}  // namespace berth::oci
