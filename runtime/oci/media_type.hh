// Media types of images: the one list of what each means. Everything that reads, asks for or writes one asks here.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "runtime/oci/packing.hh"

namespace berth::oci {

enum class MediaKind {
    manifest,
    index,
    config,
    layer,
    schema1,  ///< a manifest of Docker's first schema, which nobody can run any more
    generic,  ///< says nothing
    other     ///< not in the list: something else than an image
};

/// A row of the list.
struct MediaType {
    MediaKind kind;
    std::string_view oci, docker;  ///< its name in the OCI image specification and Docker's; empty: it has none there
    /// What a layer says of itself. Its first bytes decide, since registries are known to lie.
    Packing packing = Packing::plain;
    /// A layer that its maker did not want to be copied. It is asked of the registry like any other; the URLs in its
    /// descriptor are never followed.
    bool foreign = false;
};

/// All of them. Source: OCI image specification v1.1, media-types.md; Docker's manifest v2, schema 2.
std::span<const MediaType> media_types();

/// What a Content-Type or mediaType means; `other` for what is not in the list.
MediaKind kind_of(std::string_view name);

/// What we write into manifests of our own: OCI's name.
std::string_view media_type(MediaKind kind, Packing packing = Packing::plain);

/// Value of the Accept header: every manifest and index that parse_manifest() understands.
const std::string& accepted_manifests();

}  // namespace berth::oci
