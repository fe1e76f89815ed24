// Archives of images, as docker save, docker export and skopeo write them. The first byte of an input chooses whether
// it is taken for docker's or for skopeo's.
#include <sys/mman.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/oci/source/local.hh"
#include "tests/hostile/tar_target.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

/// Reads all of the image that the source leads to.
void read_all(oci::Source& source) {
    source.resolve();
    oci::Document document = source.manifest();
    auto parsed = oci::parse_manifest(document.bytes, document.content_type, "image");
    if (auto* index = std::get_if<oci::ImageIndex>(&parsed)) {
        document = source.manifest(oci::choose_platform(*index, {"amd64", {""}}, "image").digest);
        parsed = oci::parse_manifest(document.bytes, document.content_type, "image");
    }
    if (!std::holds_alternative<oci::Manifest>(parsed)) return;
    auto& manifest = std::get<oci::Manifest>(parsed);
    oci::parse_config(source.blob(manifest.config), manifest.layers.size(), "config");
    // Honest holes of a terabyte only take time.
    uint64_t bytes = 0;
    auto take = [&](std::string_view data) {
        if ((bytes += data.size()) > (64 << 20)) throw Error("unpacks to more than the limit");
    };
    for (const oci::Descriptor& layer : manifest.layers) source.sibling()->stream(layer, take);
}

void run(std::string_view input) {
    bool docker = hostile::take_byte(input) % 2 == 0;
    Fd file(::memfd_create("archive", MFD_CLOEXEC));
    sys::write_all(file.get(), hostile::with_checksums(input), "archive");
    hostile::refusing([&] {
        auto files =
            oci::open_archive(std::move(file), "image", [] { return Fd(::memfd_create("scratch", MFD_CLOEXEC)); });
        auto root = docker ? files->root_file_system() : std::nullopt;
        read_all(*(root     ? oci::make_export_source(*root, "image")
                   : docker ? oci::make_docker_source(*files, {}, "image")
                            : oci::make_oci_source(files, "", "image")));
    });
}

const hostile::Registration registration("archive", run);

}  // namespace
