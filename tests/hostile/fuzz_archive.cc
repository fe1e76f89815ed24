// Archives of images, as docker save and skopeo write them. The first byte of an input chooses which of the two it is taken for.
#include <sys/mman.h>

#include "runtime/base/sys.hh"
#include "runtime/image/source_local.hh"
#include "tests/hostile/tar_target.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

/// Reads all of the image that the source leads to.
void read_all(image::Source& source) {
    source.resolve();
    image::Document document = source.manifest("");
    auto parsed = image::parse_manifest(document.bytes, document.content_type, "image");
    if (auto* list = std::get_if<image::ManifestList>(&parsed)) {
        document = source.manifest(image::choose_platform(*list, {"amd64", {""}}, "image").digest);
        parsed = image::parse_manifest(document.bytes, document.content_type, "image");
    }
    if (!std::holds_alternative<image::Manifest>(parsed)) return;
    auto& manifest = std::get<image::Manifest>(parsed);
    image::parse_config(source.blob(manifest.config), manifest.layers.size(), "config");
    for (const image::Descriptor& layer : manifest.layers) source.sibling()->stream(layer, [](const void*, size_t) {});
}

void run(std::string_view input) {
    bool docker = hostile::take_byte(input) % 2 == 0;
    Fd file(::memfd_create("archive", MFD_CLOEXEC));
    sys::write_all(file.get(), hostile::with_checksums(input), "archive");
    hostile::refusing([&] {
        auto files = image::open_archive(std::move(file), "image", [] { return Fd(::memfd_create("scratch", MFD_CLOEXEC)); });
        read_all(*(docker ? image::make_docker_source(*files, {}, "image") : image::make_oci_source(files, "", "image")));
    });
}

const hostile::Registration registration("archive", run);

}  // namespace
