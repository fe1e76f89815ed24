// Layers as all kinds of programs write them, and odd ones: with its remainder the layer file of each is its tar
// stream, byte for byte. tests/hostile/remainder_layers.py makes them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/layer.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/remainder/split.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/seal.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/hostile/tar_target.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::oci;

namespace {

constexpr size_t largest_blob = 16 << 20;

struct OddLayer {
    std::string name;     ///< GROUP/NAME
    std::string blob;     ///< as a registry sends it
    std::string diff_id;  ///< as who made it says
};

std::vector<OddLayer> made_layers() {
    fixtures::TempFolder folder;
    fixtures::CommandResult made =
        fixtures::run_command(cat("python3 tests/hostile/remainder_layers.py ", folder.path()));
    INFO(made.output);
    REQUIRE(made.status == 0);
    std::istringstream lines(sys::read_file(folder / "diff-ids"));
    std::vector<OddLayer> out;
    for (std::string hex, name; lines >> hex >> name;)
        out.push_back({name, sys::read_file(folder / name, largest_blob), "sha256:" + hex});
    return out;
}

/// Tar archives that fuzzing starts from or has found.
std::vector<OddLayer> layers_of_fuzzing() {
    std::vector<OddLayer> out;
    for (const char* folder : {"corpus/tar", "crashes/tar", "corpus/tar_differs", "crashes/tar_differs"})
        for (const auto& file : fs::directory_iterator(cat("tests/hostile/", folder))) {
            std::string bytes = sys::read_file(file.path());
            // The first byte is the size of pieces there.
            if (std::string_view(folder).ends_with("/tar")) bytes.erase(0, 1);
            std::string tar = hostile::with_checksums(bytes);
            out.push_back({cat("fuzzing/", folder, "/", file.path().filename().string()), tar, sha256_of(tar).text()});
        }
    return out;
}

struct Outcome {
    enum class Kind { exact, not_pulled, not_published } kind = Kind::exact;
    std::string why;
};

/// Writes the layer file as a pull leaves it in the store.
void convert(const OddLayer& layer, int file) {
    LayerConverter converter(file, layer.name);
    converter.write(layer.blob);
    ConvertedLayer converted = converter.finish();
    CHECK(converted.diff_id.text() == layer.diff_id);
    pull::seal_layer(file, converted.sums, layer.name);
}

/// What is published beside the layer file, of a tar stream that comes in pieces of `step` bytes.
std::string remainder_of(const OddLayer& layer, squash::LayerFiles& files, size_t step) {
    std::string out;
    TarSplitter splitter(files, [&](std::string_view packed) { out += packed; });
    auto unpacker = make_decompressor([&](std::string_view tar) {
        for (; !tar.empty(); tar.remove_prefix(std::min(step, tar.size()))) splitter.feed(tar.substr(0, step));
    });
    unpacker->feed(layer.blob);
    unpacker->finish();
    splitter.finish();
    return out;
}

/// A publication and the pull of what it brought.
Outcome outcome_of(const OddLayer& layer) {
    fixtures::TempFolder folder;
    Fd file = folder.create("layer");
    try {
        convert(layer, file.get());
    } catch (const Error& error) {
        return {Outcome::Kind::not_pulled, error.what()};
    }
    squash::LayerFiles files(file.get(), layer.name, pull::read_seal(file.get(), layer.name).value());
    // Headers and bytes of files are met in parts and whole.
    try {
        for (size_t step : {size_t{333}, largest_blob}) {
            LayerProof proof(files, {});
            proof.feed(remainder_of(layer, files, step));
            Digest diff_id = proof.finish();
            CHECK(diff_id.text() == layer.diff_id);
        }
    } catch (const squash::LayerDiffers& error) {
        return {Outcome::Kind::not_published, error.what()};
    }
    return {};
}

/// Refusals by what is refused, NAME of any group or GROUP/NAME, with words of the message.
using Refusals = std::map<std::string, std::string>;

/// Whether a refusal is listed; notes it in `used`.
bool is_listed(const Refusals& refusals, const std::string& name, const std::string& why, std::set<std::string>& used) {
    auto found = refusals.find(name);
    if (found == refusals.end()) found = refusals.find(name.substr(name.find('/') + 1));
    if (found == refusals.end() || why.find(found->second) == why.npos) return false;
    used.insert(found->first);
    return true;
}

/// Images with these layers cannot be pulled at all, whether or not they are published.
const Refusals not_pulled{
    {"hardlink-to-later", "no such file in this layer"},
    {"hardlink-to-nothing", "no such file in this layer"},
    {"hardlink-to-a-directory", "making the hard link"},
    {"name-of-5000", "the limit is 4096"},
    {"out-of-the-image", "leads out of the image"},
    {"part-of-256", "the limit is 255"},
    {"slash-behind-a-file", "the checksum of a header is wrong"},  // a directory, whose bytes would be a header
    {"target-of-4096", "the limit is 4095"},
    {"cases/hardlink-to-lower-layer-2", "no such file in this layer"},
    {"end/behind-an-extended-header", "without the entry"},
    {"end/behind-one-block", "goes on after a zero block"},
    {"end/in-a-file", "is cut off"},
    {"end/in-a-header", "is cut off"},
    {"global/path", "sets path for all entries"},
    {"gnu/holes-out-of-order", "out of order"},
    {"gnu-tar/incremental", "its type 'D' is not supported"},
    {"gnu-tar/labelled", "its type 'V' is not supported"},
    {"header/a-file-over-the-root", "would replace the root directory"},
    {"header/below-a-whiteout", "lies below a whiteout"},
    {"header/checksum-that-is-wrong", "the checksum of a header is wrong"},
    {"header/no-archive", "the checksum of a header is wrong"},
    {"header/no-name", "has an empty name"},
    {"header/size-that-is-negative", "is negative"},
    // V7 has no FIFOs: bsdtar leaves out what the link leads to.
    {"libarchive-v7/hardlink-of-a-fifo", "no such file in this layer"},
    {"packed/bzip2", "it is packed with bzip2"},
    {"packed/gzip-cut-off", "is cut off"},
    {"packed/gzip-with-another-sum", "its checksum is wrong"},
    {"packed/gzip-with-bytes-behind", "followed by bytes that are no gzip data"},
    {"packed/gzip-with-zeros-behind", "followed by bytes that are no gzip data"},
    {"packed/xz", "it is packed with xz"},
    {"packed/zstd-cut-off", "is cut off"},
    {"pax/another-size", "its header says 2 bytes and its PAX record 1"},
    {"pax/attribute-too-large", "of 65537 bytes"},
    {"pax/bytes-in-attributes", "no extended attribute user. of 1 bytes"},
    {"pax/malformed", "has a malformed record"},
    {"type/8", "its type '8' is not supported"},
    {"type/A", "its type 'A' is not supported"},
    {"type/D", "its type 'D' is not supported"},
    {"type/I", "its type 'I' is not supported"},
    {"type/M", "its type 'M' is not supported"},
    {"type/N", "its type 'N' is not supported"},
    {"type/V", "its type 'V' is not supported"},
    {"type/X", "its type 'X' is not supported"},
    {"type/Z", "its type 'Z' is not supported"},
};

/// These are pulled, but are not published, since the proof refuses them. None is known.
const Refusals not_published{};

}  // namespace

TEST_CASE("remainder: layers of all kinds come out as they were, or are known to be refused", "[layer][remainder]") {
    std::map<Outcome::Kind, size_t> counts;
    std::set<std::string> different, used;
    std::vector<OddLayer> layers = made_layers();
    for (const OddLayer& layer : layers) {
        INFO(layer.name);
        different.insert(layer.blob);
        Outcome outcome = outcome_of(layer);
        ++counts[outcome.kind];
        INFO(outcome.why);
        if (outcome.kind == Outcome::Kind::not_pulled) CHECK(is_listed(not_pulled, layer.name, outcome.why, used));
        if (outcome.kind == Outcome::Kind::not_published)
            CHECK(is_listed(not_published, layer.name, outcome.why, used));
    }
    SUCCEED(cat(counts[Outcome::Kind::exact], " exact, ", counts[Outcome::Kind::not_pulled], " not pulled, ",
                counts[Outcome::Kind::not_published], " not published"));
    CHECK(different.size() == layers.size());
    CHECK(counts[Outcome::Kind::exact] >= 1'000);
    for (const Refusals& refusals : {not_pulled, not_published})
        for (const auto& [name, words] : refusals) {
            INFO(name);
            CHECK(used.contains(name));
        }
}

TEST_CASE("remainder: what fuzzing keeps comes out as it was", "[layer][remainder]") {
    size_t exact = 0;
    for (const OddLayer& layer : layers_of_fuzzing()) {
        INFO(layer.name);
        Outcome outcome = outcome_of(layer);
        INFO(outcome.why);
        CHECK(outcome.kind != Outcome::Kind::not_published);
        exact += outcome.kind == Outcome::Kind::exact;
    }
    CHECK(exact >= 25);
}
