#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/write/compressor_pool.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using fixtures::TempFolder;
using test::noise;

namespace {

/// Of the superblock and the codec's options behind it.
constexpr size_t rewritten = 128;

void add_file(LayerWriter& writer, std::string_view path, std::string_view content) {
    writer.begin_file(path, {.mode = 0644});
    writer.append(content);
    writer.end_file();
}

std::string bytes_of_file(const std::string& path, uint64_t size) {
    Fd file = sys::open_file(path, O_RDONLY);
    std::string out(size, 0);
    REQUIRE(sys::pread_exact(file.get(), out, 0, path));
    return out;
}

/// What was said to be final, as it was when it was said.
class Watch {
  public:
    explicit Watch(std::string path) : path_(std::move(path)) {}
    void operator()(uint64_t bytes) {
        std::lock_guard lock(mutex_);
        if (bytes <= last_) return;
        last_ = bytes;
        if (bytes < told_ + (400 << 10)) return;
        told_ = bytes;
        said_.push_back(bytes_of_file(path_, bytes));
    }
    const std::vector<std::string>& said() const { return said_; }
    uint64_t last() const { return last_; }

  private:
    std::string path_;
    std::mutex mutex_;
    uint64_t told_ = 0, last_ = 0;
    std::vector<std::string> said_;
};

}  // namespace

TEST_CASE("what the writer calls final never changes, among files that give way to earlier ones", "[squash][share]") {
    unsigned seed = GENERATE(range(0U, 12U));
    CAPTURE(seed);
    // On a disk where there is one: there the writer goes round the page cache.
    TempFolder folder("/var/tmp");
    std::mt19937 random(seed);
    std::vector<std::string> contents;
    for (unsigned i = 0; i < 12; ++i) contents.push_back(noise(1 + random() % 1'500'000, i));
    // The same beginning, another end: not to be taken for a copy, and known only at the end.
    contents.push_back(contents[0] + noise(200'000, 99));
    CompressorPool pool({}, {.threads = 3, .buffers = 12});
    Fd file = folder.create("layer");
    Watch watch(folder / "layer");
    LayerWriter writer(file.get(), &pool, [&](uint64_t bytes) { watch(bytes); });
    for (unsigned i = 0; i < 40; ++i) add_file(writer, cat("file", i), contents[random() % contents.size()]);
    writer.finish();
    REQUIRE(watch.said().size() > 2);
    std::string whole = bytes_of_file(folder / "layer", std::filesystem::file_size(folder / "layer"));
    for (const std::string& said : watch.said()) {
        REQUIRE(said.size() <= whole.size());
        CHECK((said.substr(rewritten) == whole.substr(rewritten, said.size() - rewritten)));
    }
}

TEST_CASE("a large file is final as it is written, not at its end", "[squash][share]") {
    TempFolder folder;
    CompressorPool pool({}, {.threads = 2, .buffers = 8});
    Fd file = folder.create("layer");
    std::atomic<uint64_t> final_bytes = 0;
    LayerWriter writer(file.get(), &pool, [&](uint64_t bytes) {
        if (bytes > final_bytes) final_bytes = bytes;
    });
    writer.begin_file("large", {.mode = 0644});
    std::string part = noise(4 << 20, 1);
    for (unsigned i = 0; i < 8; ++i) writer.append(part);
    CHECK(final_bytes > (8U << 20));
    writer.end_file();
    writer.finish();
}
