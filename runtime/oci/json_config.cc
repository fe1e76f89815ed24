#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/oci/manifest.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

std::vector<Digest> parse_rootfs(const json& document, size_t layer_count, const std::string& what) {
    const json* rootfs = object_member(document, "rootfs", what);
    if (rootfs == nullptr || string_member(*rootfs, "type", what).value_or("") != "layers")
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
    std::string os = string_member(document, "os", what).value_or("linux");
    if (os != "linux") throw Error(cat(what, ": made for ", printable(os), ", not for linux"));
    ImageDescription out;
    out.diff_ids = parse_rootfs(document, layer_count, what);
    if (const json* config = object_member(document, "config", what)) out.config = parse_process(*config, what);
    out.config.architecture = string_member(document, "architecture", what).value_or("");
    return out;
}

}  // namespace berth::oci
