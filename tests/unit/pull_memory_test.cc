#include <filesystem>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "tests/catch.hh"
#include "tests/fixtures/pack.hh"
#include "tests/fixtures/served_image.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_builder.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;

namespace {

/// An OCI layout with one image of several layers that compress as programs do.
class Layout {
  public:
    explicit Layout(const std::string& folder) : folder_(folder) {
        std::filesystem::create_directories(folder + "/blobs/sha256");
        squash::test::write_file(folder + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})");
        std::string layers, ids;
        for (uint32_t seed = 1; seed <= 4; ++seed) {
            fixtures::TarBuilder tar;
            for (uint32_t file = 0; file < 24; ++file)
                tar.file(cat("layer", seed, "/file", file), squash::test::noise(400'000, seed * 100 + file) +
                                                                squash::test::prose(600'000, seed * 100 + file));
            for (uint32_t file = 0; file < 1000; ++file)
                tar.file(cat("layer", seed, "/small", file), squash::test::prose(2'000, file));
            std::string bytes = tar.finished();
            layers += (layers.empty() ? "" : ",") + blob("layer.v1.tar+gzip", fixtures::gzip(bytes, 1));
            ids += cat(ids.empty() ? "" : ",", "\"", oci::sha256_of(bytes), "\"");
        }
        std::string config =
            blob("config.v1+json",
                 cat(R"({"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[)", ids,
                     "]}}"));
        std::string manifest =
            blob("manifest.v1+json", cat(R"({"schemaVersion":2,"config":)", config, R"(,"layers":[)", layers, "]}"));
        squash::test::write_file(folder + "/index.json", cat(R"({"schemaVersion":2,"manifests":[)", manifest, "]}"));
    }

  private:
    /// Writes it and returns its descriptor.
    std::string blob(const std::string& kind, const std::string& bytes) {
        std::string digest = oci::sha256_of(bytes).text();
        squash::test::write_file(cat(folder_, "/blobs/sha256/", digest.substr(7)), bytes);
        return cat(R"({"mediaType":"application/vnd.oci.image.)", kind, R"(","digest":")", digest, R"(","size":)",
                   bytes.size(), "}");
    }

    std::string folder_;
};

/// Peak memory of a command, in KiB. A program of its own asks for it: the kernel counts what a process was before its
/// exec as well.
uint64_t peak_of(const std::string& command) {
    fixtures::CommandResult result = fixtures::run_command(
        "python3 -c 'import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)' " +
        command);
    INFO(result.output);
    REQUIRE(result.status == 0);
    std::string text(trimmed(result.output));
    uint64_t peak = 0;
    REQUIRE(parse_number(text.substr(text.rfind('\n') + 1), INT64_MAX, peak));
    return peak;
}

}  // namespace

TEST_CASE("a pull stays below its memory, whatever the number of threads", "[pull]") {
    fixtures::TempFolder folder;
    Layout layout(folder / "layout");
    std::string program = fixtures::built_program("berth-pull");
    for (uint64_t megabytes : {48, 128}) {
        for (const char* setting : {"BERTH_STORE_COMPRESSION=zstd", "BERTH_STORE_COMPRESSION=lz4"}) {
            std::filesystem::remove_all(folder / "store");
            uint64_t peak =
                peak_of(cat(program, " --threads 64 --setting BERTH_LIMITS_PULL_MEMORY=", megabytes, "M --setting ",
                            setting, " --store ", folder / "store", " oci:", folder / "layout"));
            INFO(setting);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
            WARN("the peak of " << peak << " KiB is the sanitizer's: NOT COMPARED");
#else
            CHECK(peak <= megabytes << 10);
#endif
        }
    }
}
