#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/registry/registry.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/sif_artifact.hh"
#include "runtime/pull/export/sif.hh"
#include "runtime/pull/publish/file_blob.hh"
#include "runtime/squash/format/image_file.hh"
#include "runtime/squash/format/sif.hh"

namespace berth::pull {

namespace {

constexpr const char* created_label = "org.opencontainers.image.created";
constexpr int64_t metadata_limit = 4 << 20;

/// What a label of the image says in the file's metadata; empty where it says nothing.
std::string created_by_label(int file, const squash::SifObjects& sif, const std::string& what) {
    for (const squash::sif::Descriptor& object : sif.used) {
        std::string_view name(object.name, ::strnlen(object.name, sizeof object.name));
        if (object.type != squash::sif::type_json || name != "inspect-metadata.json" || object.size > metadata_limit)
            continue;
        std::string text(static_cast<size_t>(object.size), '\0');
        if (!sys::pread_exact(file, text, static_cast<uint64_t>(object.offset), what)) return {};
        auto document = nlohmann::json::parse(text, nullptr, false);
        auto at = nlohmann::json::json_pointer(cat("/data/attributes/labels/", created_label));
        if (document.is_object() && document.contains(at) && document[at].is_string())
            return document[at].get<std::string>();
    }
    return {};
}

std::string created_text(int file, const squash::SifObjects& sif, const std::string& what) {
    if (std::string text = created_by_label(file, sif, what); !text.empty()) return text;
    time_t seconds = sif.header.created;
    tm parts{};
    char text[64] = {};
    if (::gmtime_r(&seconds, &parts) == nullptr) return {};
    ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

std::string last_part(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

}  // namespace

PushedSif push_sif(const std::string& path, const plan::Reference& reference, std::vector<std::string> annotations,
                   const oci::RegistryOptions& options, Meter& meter) {
    std::string what = printable(path, 4096), place = cat("oras://", printable(reference.text(), 1024));
    Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    squash::SifObjects sif = squash::read_sif(file.get(), path);
    if (std::string made = created_text(file.get(), sif, what); !made.empty())
        annotations.insert(annotations.begin(), cat(created_label, "=", made));
    meter.begin(Phase::reading, cat("reading ", what));
    oci::Descriptor blob = descriptor_of(file.get(), std::string(oci::sif_layer_type), what);
    std::string manifest = oci::make_sif_artifact(blob, last_part(path), annotations);
    oci::Registry registry(reference, options);
    meter.begin(Phase::writing, cat("bringing ", what, " to ", place), blob.size);
    PushedSif out{oci::sha256_of(manifest)};
    out.is_new = registry.put_blob(blob.digest, {file.get(), blob.size, [&](uint64_t sent) { meter.advance(sent); }});
    registry.put_blob(std::string(oci::empty_config));
    registry.put_manifest(reference.tag, std::string(oci::media_type(oci::MediaKind::manifest)), manifest);
    return out;
}

}  // namespace berth::pull
