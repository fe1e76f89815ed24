#include "runtime/oci/manifest.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/descriptor.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/media_type.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

/// Registries of 2016 changed the type of a config, so that docker reads these in manifests of its own form
/// (github.com/docker/distribution/issues/1621). Artifacts never had that form.
bool is_docker_config(const std::string& type) {
    constexpr std::string_view made_of_it[] = {"", "application/octet-stream", "application/json", "text/html"};
    return std::ranges::find(made_of_it, type) != std::end(made_of_it);
}

Manifest parse_image(const json& document, bool is_docker, const std::string& what) {
    const json* config = object_member(document, "config", what);
    if (config == nullptr) throw Error(cat(what, ": the manifest has no config"));
    Manifest out{parse_descriptor(*config, what, is_docker), {}};
    if (kind_of(out.config.media_type) != MediaKind::config && !(is_docker && is_docker_config(out.config.media_type)))
        throw Error(cat(what, ": an artifact of type ", printable(out.config.media_type), ", not a container image"));
    if (out.config.size > document_limit)
        throw Error(cat(what, ": its config is larger than ", human_bytes(document_limit)));
    const json& layers = *array_member(document, "layers", what);
    if (layers.size() > layer_limit) throw Error(cat(what, ": more than ", layer_limit, " layers"));
    for (const json& layer : layers) {
        out.layers.push_back(parse_descriptor(layer, what));
        if (kind_of(out.layers.back().media_type) != MediaKind::layer)
            throw Error(cat(what, ": the layer ", out.layers.back().digest, " has the type ",
                            printable(out.layers.back().media_type), ", which is not supported"));
    }
    return out;
}

/// Nothing too where both names are empty, as in images that name no platform in their config either.
std::optional<Platform> parse_platform(const json& entry, const std::string& what) {
    const json* platform = object_member(entry, "platform", what);
    if (platform == nullptr) return std::nullopt;
    Platform out{string_member(*platform, "os", what).value_or(""),
                 string_member(*platform, "architecture", what).value_or(""),
                 string_member(*platform, "variant", what).value_or("")};
    return out.os.empty() && out.architecture.empty() ? std::nullopt : std::optional(std::move(out));
}

/// What is there for other readers than this one: it may use what came after this release, as long as nobody chooses
/// it. A sha256 digest that is none is refused in any case: it is no newer form, but an attack or damage.
void add_entry(ImageIndex& index, const json& entry, const std::string& what) {
    if (!entry.is_object()) throw Error(cat(what, ": a descriptor is not an object"));
    check_digest_form(entry, what);
    auto type = entry.find("mediaType");
    bool is_told = type != entry.end() && type->is_string() && *type != "";
    MediaKind kind = is_told ? kind_of(type->get<std::string>()) : MediaKind::manifest;
    if (kind != MediaKind::manifest && kind != MediaKind::index) return;
    std::optional<Platform> platform;
    try {
        platform = parse_platform(entry, what);
    } catch (const Error&) {
        return;  // of a machine that cannot be told, so nobody chooses it
    }
    try {
        index.entries.push_back({parse_descriptor(entry, what), platform});
    } catch (const Error& problem) {
        index.unreadable.push_back({std::move(platform), problem.what()});
    }
}

ImageIndex parse_index(const json& document, const std::string& what) {
    ImageIndex out;
    for (const json& entry : *array_member(document, "manifests", what)) add_entry(out, entry, what);
    return out;
}

/// Two names for one document must not disagree about what it is.
void check_types(const std::string& media_type, std::string_view content_type, MediaKind kind,
                 const std::string& what) {
    MediaKind told = kind_of(content_type);
    MediaKind inside = kind_of(media_type);
    if (told == MediaKind::other || told == MediaKind::config || told == MediaKind::layer)
        throw Error(cat(what, ": of type ", printable(content_type), ", which is no image"));
    bool contradicts = told != MediaKind::generic && told != kind;
    if (!media_type.empty())
        contradicts = contradicts || inside != kind || (told != MediaKind::generic && media_type != content_type);
    if (contradicts)
        throw Error(cat(what, ": its types contradict each other: Content-Type \"", printable(content_type),
                        "\", mediaType \"", printable(media_type), "\""));
}

}  // namespace

std::variant<Manifest, ImageIndex> parse_manifest(std::string_view text, std::string_view content_type,
                                                  const std::string& what) {
    if (text.size() > document_limit)
        throw Error(cat(what, ": the manifest is larger than ", human_bytes(document_limit)));
    content_type = trimmed(content_type.substr(0, content_type.find(';')));
    json document = parse_json(text, what);
    if (!document.is_object()) throw Error(cat(what, ": the manifest is not a JSON object"));
    auto schema = document.find("schemaVersion");
    bool is_first = kind_of(content_type) == MediaKind::schema1 || (schema != document.end() && *schema == 1);
    if (is_first)
        throw Error(cat(
            what, ": an image of Docker's manifest schema 1, which is obsolete; push it again with a current tool"));
    std::string type = string_member(document, "mediaType", what).value_or("");
    bool has_type = !type.empty() || kind_of(content_type) != MediaKind::generic;
    if (schema == document.end() ? !has_type : !schema->is_number_integer() || *schema != 2)
        throw Error(cat(what, ": its schemaVersion is not 2"));
    bool has_layers = array_member(document, "layers", what) != nullptr;
    bool has_manifests = array_member(document, "manifests", what) != nullptr;
    if (has_layers && has_manifests)
        throw Error(cat(what, ": has both layers and manifests, so that it could be read in two ways"));
    if (!has_layers && !has_manifests) throw Error(cat(what, ": neither an image manifest nor an image index"));
    check_types(type, content_type, has_layers ? MediaKind::manifest : MediaKind::index, what);
    if (has_layers) {
        constexpr std::string_view docker = "application/vnd.docker.distribution.manifest.v2+json";
        bool is_docker = content_type == docker || type == docker;
        return parse_image(document, is_docker, what);
    }
    return parse_index(document, what);
}

namespace {

std::vector<Digest> parse_rootfs(const json& document, size_t layer_count, const std::string& what) {
    const json* rootfs = object_member(document, "rootfs", what);
    if (rootfs == nullptr || string_member(*rootfs, "type", what).value_or("layers") != "layers")
        throw Error(cat(what, ": rootfs.type of its config is not \"layers\""));
    std::vector<std::string> texts = strings_member(*rootfs, "diff_ids", what);
    if (texts.size() != layer_count)
        throw Error(cat(what, ": its config lists ", texts.size(), " diff_ids for ", layer_count, " layers"));
    std::vector<Digest> out;
    for (const std::string& text : texts) {
        auto digest = Digest::parse(text);
        if (!digest)
            throw Error(cat(what, ": the diff_id \"", printable(text),
                            "\" is not sha256: and 64 lower-case hexadecimal digits"));
        out.push_back(*digest);
    }
    return out;
}

plan::ImageConfig parse_process(const json& config, const std::string& what) {
    plan::ImageConfig out;
    out.env = strings_member(config, "Env", what);
    out.entrypoint = strings_member(config, "Entrypoint", what);
    out.cmd = strings_member(config, "Cmd", what);
    out.working_dir = string_member(config, "WorkingDir", what).value_or("");
    out.user = string_member(config, "User", what).value_or("");
    if (const json* volumes = object_member(config, "Volumes", what))
        for (const auto& [path, unused] : volumes->items()) out.volumes.push_back(path);
    return out;
}

}  // namespace

ImageDescription parse_config(std::string_view text, size_t layer_count, const std::string& what) {
    if (text.size() > document_limit)
        throw Error(cat(what, ": its config is larger than ", human_bytes(document_limit)));
    json document = parse_json(text, what);
    if (!document.is_object()) throw Error(cat(what, ": its config is not a JSON object"));
    // An image that is made of nothing names no system (go-containerregistry's, with which `crane append` begins).
    std::string os = string_member(document, "os", what).value_or("");
    if (!os.empty() && lower(os) != "linux")
        throw Error(cat(what, ": made for ", printable(os), ", not for linux"));
    ImageDescription out;
    out.diff_ids = parse_rootfs(document, layer_count, what);
    if (const json* config = object_member(document, "config", what)) out.config = parse_process(*config, what);
    out.config.architecture = string_member(document, "architecture", what).value_or("");
    return out;
}

}  // namespace berth::oci
