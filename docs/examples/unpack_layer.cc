// Makes a squashfs file of a layer of an image, by the public functions of runtime/oci: unpack_layer FILE < LAYER.
//
// LAYER is a tar stream, by gzip or zstd or neither, as `skopeo copy` puts them into a folder. It is hashed, inflated,
// hashed again, parsed and written as it comes: nothing is unpacked to disk, and names cannot lead out of the file.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/oci/layer/layer.hh"

using namespace berth;

int main(int argc, char** argv) try {
    if (argc != 2) throw Error("usage: unpack_layer FILE < LAYER");
    Fd file = sys::open_file(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    oci::LayerConverter converter(file.get(), "the layer");
    char buffer[1 << 16];
    for (ssize_t size; (size = sys::uninterrupted([&] { return ::read(STDIN_FILENO, buffer, sizeof buffer); })) != 0;) {
        if (size < 0) throw SysError("reading the layer");
        converter.write({buffer, static_cast<size_t>(size)});
    }
    oci::ConvertedLayer layer = converter.finish();
    // The digests are what an image's manifest and config have for the layer: whoever trusts these compares them.
    std::printf("digest %s\ndiff_id %s\nentries %llu\n", layer.digest.text().c_str(), layer.diff_id.text().c_str(),
                static_cast<unsigned long long>(layer.entries));
    return 0;
} catch (const Error& error) {
    std::fprintf(stderr, "unpack_layer: %s\n", error.what());
    return error.exit_code();
}
