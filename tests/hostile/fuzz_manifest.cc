// Manifests, indexes and configs of images. The first byte of an input chooses the document and the Content-Type it
// comes with.
#include "runtime/oci/manifest.hh"
#include "runtime/oci/sif_artifact.hh"
#include "tests/hostile/target.hh"

namespace {

constexpr const char* types[] = {"",
                                 "application/vnd.oci.image.manifest.v1+json",
                                 "application/vnd.oci.image.index.v1+json",
                                 "application/vnd.docker.distribution.manifest.v2+json",
                                 "application/vnd.docker.distribution.manifest.list.v2+json",
                                 "application/json; charset=utf-8"};

void run(std::string_view input) {
    using namespace berth::oci;
    unsigned choice = berth::hostile::take_byte(input);
    berth::hostile::refusing([&] {
        if (choice % 8 >= std::size(types)) {
            parse_config(input, choice / 8 % 4, "config");
            return;
        }
        berth::hostile::refusing([&] { parse_sif_artifact(input, "artifact"); });
        auto document = parse_manifest(input, types[choice % 8], "manifest");
        if (auto* index = std::get_if<ImageIndex>(&document)) choose_platform(*index, {"arm64", {"", "v8"}}, "index");
    });
}

const berth::hostile::Registration registration("manifest", run);

}  // namespace
