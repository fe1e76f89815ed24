// Published layers. The first byte chooses: records of a remainder, packed here; a remainder as it lies; the artifact's
// manifest; or a tar stream, which is converted, split, and has to be proved.
#include <sys/mman.h>
#include <zstd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/remainder/split.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

constexpr oci::LayerLimits limits{.unpacked_bytes = 4 << 20, .entries = 2000, .xattr_bytes = 1 << 20};

std::string packed(std::string_view bytes) {
    std::string out(ZSTD_compressBound(bytes.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 1));
    return out;
}

/// The layer file of a tar stream; empty when that is refused.
Fd converted(std::string_view tar) {
    Fd fd(::memfd_create("layer", MFD_CLOEXEC));
    bool written = false;
    hostile::refusing([&] {
        squash::LayerWriter writer(fd.get(), {});
        oci::Unpacker unpacker(writer, limits);
        oci::TarParser parser(unpacker);
        parser.feed(tar);
        parser.finish();
        unpacker.finish();
        writer.mark_implied_directories(squash::implied_directory_marker);
        writer.finish();
        written = true;
    });
    return written ? std::move(fd) : Fd();
}

/// A header of ustar, a file of 10 bytes named f, and a directory d.
std::string small_tar() {
    std::string out;
    for (bool is_file : {true, false}) {
        std::string block(512, '\0');
        block[0] = is_file ? 'f' : 'd';
        block.replace(100, 8, std::string("0000644\0", 8));
        block.replace(124, 12, is_file ? std::string("00000000012\0", 12) : std::string("00000000000\0", 12));
        block.replace(148, 8, 8, ' ');
        block[156] = is_file ? '0' : '5';
        unsigned sum = 0;
        for (char c : block) sum += static_cast<unsigned char>(c);
        char text[8];
        std::snprintf(text, sizeof text, "%06o", sum);
        block.replace(148, 7, std::string(text, 7));
        out += block;
        if (is_file) out += std::string("0123456789") + std::string(502, '\0');
    }
    return out;
}

void run_remainder(std::string_view remainder) {
    static const Fd layer = converted(small_tar());
    must(bool(layer), "the layer that is proved is refused");
    hostile::refusing([&] {
        squash::LayerFiles files(layer.get(), "layer");
        oci::LayerProof proof(files, limits);
        proof.feed(remainder);
        proof.finish();
    });
}

void run_artifact(std::string_view text) {
    hostile::refusing([&] {
        std::string list = oci::with_referrer(text, {"m", oci::sha256_of(text), text.size()}, "referrers");
        must(list.find(oci::artifact_type) != list.npos, "a list of referrers lacks what was added");
    });
    hostile::refusing([&] {
        oci::Artifact artifact = oci::parse_artifact(text, "artifact");
        oci::Artifact again = oci::parse_artifact(oci::make_artifact(artifact), "artifact");
        must(again.layers.size() == artifact.layers.size(), "an artifact that was read is written otherwise");
    });
}

/// What can be converted can be published.
void run_tar(std::string_view tar) {
    Fd layer = converted(tar);
    if (!layer) return;
    squash::LayerFiles files(layer.get(), "layer");
    std::string remainder;
    oci::TarSplitter splitter(files, [&](std::string_view bytes) { remainder += bytes; });
    splitter.feed(tar);
    splitter.finish();
    oci::LayerProof proof(files, {});
    proof.feed(remainder);
    must(proof.finish() == oci::sha256_of(tar), "a layer that was split is another one");
}

void run(std::string_view input) {
    switch (hostile::take_byte(input) % 4) {
        case 0:
            return run_remainder(packed(input));
        case 1:
            return run_remainder(input);
        case 2:
            return run_artifact(input);
        default:
            return run_tar(input);
    }
}

const hostile::Registration registration("remainder", run);

}  // namespace
