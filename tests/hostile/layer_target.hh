// A layer's way from tar to squashfs and back to a tree, for the targets that differ in where the tar comes from.
#pragma once
#include <sys/mman.h>

#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/unpack.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/hostile/target.hh"

namespace berth::hostile {

/// What was written without an error must be read without one, alone and over itself, where its whiteouts have
/// something to remove.
inline void read_back(int fd) {
    std::vector<squash::LayerInfo> infos(2);
    try {
        std::vector<squash::Tree> layers;
        for (uint32_t layer : {0U, 1U}) layers.push_back(squash::read_tree(fd, "layer", layer, infos[layer]));
        squash::Tree merged = squash::merge(std::move(layers));
        squash::Index::from_bytes(squash::build_index(merged, infos, {}));
    } catch (const Error& error) {
        throw std::logic_error(std::string("our own layer is refused: ") + error.what());
    }
}

/// Converts what `feed` gives to the decompressor. The limits are low, since honest holes of a terabyte only take time.
inline void convert(const std::function<void(oci::Decompressor&)>& feed) {
    Fd fd(::memfd_create("layer", MFD_CLOEXEC));
    bool written = false;
    refusing([&] {
        squash::LayerWriter writer(fd.get(), {});
        oci::Unpacker unpacker(writer, {.unpacked_bytes = 4 << 20, .entries = 2000, .xattr_bytes = 1 << 20});
        oci::TarParser parser(unpacker);
        uint64_t unpacked = 0;
        auto decompressor = oci::make_decompressor([&](std::string_view data) {
            if ((unpacked += data.size()) > (8 << 20)) throw Error("unpacks to more than the limit");
            parser.feed(data);
        });
        feed(*decompressor);
        decompressor->finish();
        parser.finish();
        unpacker.finish();
        writer.mark_implied_directories(squash::implied_directory_marker);
        writer.finish();
        written = true;
    });
    if (written) read_back(fd.get());
}

}  // namespace berth::hostile
