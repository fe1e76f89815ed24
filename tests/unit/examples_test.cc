// The programs of docs/examples, which use the public functions of runtime/squash and runtime/oci, do what they say.
#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/compress.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"

using namespace berth;
using namespace berth::fixtures;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// What an example of this build prints, its errors too, and "|CODE".
std::string example(const std::string& name, const std::string& words) {
    std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "examples";
    CommandResult result = run_command(cat(folder, '/', name, ' ', words));
    return cat(result.output, '|', result.status);
}

}  // namespace

TEST_CASE("the examples: a layer becomes a squashfs file, whose files are listed", "[examples]") {
    TempFolder folder;
    std::string file = folder / "layer.sqfs", input = folder / "layer";
    auto write = [&](const TarBuilder& tar) {
        std::string bytes = compressed(tar.finished(), "gzip");
        sys::write_all(folder.create("layer").get(), bytes, "a layer");
        return bytes;
    };
    std::string bytes =
        write(TarBuilder().directory("./").directory("bin").file("bin/hello", "hi\n", 0755).symlink("bin/hi", "hello"));
    CHECK_THAT(example("unpack_layer", cat(file, " < ", input)),
               StartsWith(cat("digest ", oci::sha256_of(bytes), "\ndiff_id sha256:")) && EndsWith("\nentries 4\n|0"));
    CHECK(example("list_squashfs", file) ==
          "040755     4096 /bin\n100755        3 /bin/hello\n120777        5 /bin/hi -> hello\n|0");
    CHECK_THAT(example("list_squashfs", input), StartsWith("list_squashfs: ") && EndsWith("|125"));
    write(TarBuilder().file("../outside", "no"));
    CHECK_THAT(example("unpack_layer", cat(file, " < ", input)),
               StartsWith("unpack_layer: unpacking the layer: ") && Contains("outside") && EndsWith("|125"));
}
