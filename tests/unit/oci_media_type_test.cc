#include <set>

#include "runtime/base/text.hh"
#include "runtime/oci/media_type.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::oci;

TEST_CASE("media types: each name stands for one thing", "[manifest]") {
    std::set<std::string_view> names;
    for (const MediaType& type : media_types())
        for (std::string_view name : {type.oci, type.docker}) {
            if (name.empty()) continue;
            CHECK(names.insert(name).second);
            CHECK(kind_of(name) == type.kind);
            CHECK((type.kind == MediaKind::layer || (type.packing == Packing::plain && !type.foreign)));
        }
    CHECK(kind_of("") == MediaKind::generic);
    CHECK(kind_of("application/vnd.oci.image.layer.v1.tar+encrypted") == MediaKind::other);
    CHECK(kind_of("application/vnd.oci.image.manifest.v1") == MediaKind::other);
}

TEST_CASE("media types: what a registry is asked for", "[manifest]") {
    CHECK(accepted_manifests() ==
          "application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json, "
          "application/vnd.docker.distribution.manifest.v2+json, "
          "application/vnd.docker.distribution.manifest.list.v2+json");
}

TEST_CASE("media types: what our own manifests say", "[manifest]") {
    CHECK(media_type(MediaKind::config) == "application/vnd.oci.image.config.v1+json");
    CHECK(media_type(MediaKind::layer) == "application/vnd.oci.image.layer.v1.tar");
    CHECK(media_type(MediaKind::layer, Packing::zstd) == "application/vnd.oci.image.layer.v1.tar+zstd");
}

TEST_CASE("packing: by the first bytes, skippable frames of zstd included", "[decompress]") {
    using namespace std::string_view_literals;
    CHECK(packing_of("\x1F\x8B\x08\x00"sv) == Packing::gzip);
    CHECK(packing_of("\x28\xB5\x2F\xFD"sv) == Packing::zstd);
    for (int low = 0; low < 16; ++low)
        CHECK(packing_of(cat(static_cast<char>(0x50 + low), "\x2A\x4D\x18")) == Packing::zstd);
    CHECK(packing_of("\x60\x2A\x4D\x18"sv) == Packing::plain);
    CHECK(packing_of("\x50\x2A\x4D\x19"sv) == Packing::plain);
    CHECK(packing_of("\x28\xB5\x2F"sv) == Packing::plain);
    CHECK(packing_of("") == Packing::plain);
    CHECK(packing_of("./\0\0"sv) == Packing::plain);
}
