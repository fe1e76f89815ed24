#include "runtime/oci/media_type.hh"

#include <algorithm>
#include <stdexcept>

#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

constexpr MediaType types[] = {
    {MediaKind::manifest, "application/vnd.oci.image.manifest.v1+json",
     "application/vnd.docker.distribution.manifest.v2+json"},
    {MediaKind::index, "application/vnd.oci.image.index.v1+json",
     "application/vnd.docker.distribution.manifest.list.v2+json"},
    {MediaKind::config, "application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"},
    {MediaKind::layer, "application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"},
    {MediaKind::layer, "application/vnd.oci.image.layer.v1.tar+gzip",
     "application/vnd.docker.image.rootfs.diff.tar.gzip", Packing::gzip},
    {MediaKind::layer, "application/vnd.oci.image.layer.v1.tar+zstd",
     "application/vnd.docker.image.rootfs.diff.tar.zstd", Packing::zstd},
    {MediaKind::layer, "application/vnd.oci.image.layer.nondistributable.v1.tar",
     "application/vnd.docker.image.rootfs.foreign.diff.tar", Packing::plain, true},
    {MediaKind::layer, "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
     "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", Packing::gzip, true},
    {MediaKind::layer, "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
     "application/vnd.docker.image.rootfs.foreign.diff.tar.zstd", Packing::zstd, true},
    {MediaKind::schema1, "", "application/vnd.docker.distribution.manifest.v1+json"},
    {MediaKind::schema1, "", "application/vnd.docker.distribution.manifest.v1+prettyjws"},
    // What servers send that know nothing of images.
    {MediaKind::generic, "application/json", ""},
    {MediaKind::generic, "text/plain", ""},
    {MediaKind::generic, "application/octet-stream", ""},
};

}  // namespace

std::span<const MediaType> media_types() {
    return types;
}

MediaKind kind_of(std::string_view name) {
    if (name.empty()) return MediaKind::generic;
    const auto* found =
        std::ranges::find_if(types, [&](const MediaType& type) { return type.oci == name || type.docker == name; });
    return found == std::end(types) ? MediaKind::other : found->kind;
}

std::string_view media_type(MediaKind kind, Packing packing) {
    for (const MediaType& type : types)
        if (type.kind == kind && type.packing == packing && !type.foreign) return type.oci;
    throw std::logic_error("no media type is packed so");
}

const std::string& accepted_manifests() {
    static const std::string all = [] {
        std::string out;
        for (auto name : {&MediaType::oci, &MediaType::docker})
            for (const MediaType& type : types)
                if (type.kind == MediaKind::manifest || type.kind == MediaKind::index)
                    out += cat(out.empty() ? "" : ", ", type.*name);
        return out;
    }();
    return all;
}

}  // namespace berth::oci
