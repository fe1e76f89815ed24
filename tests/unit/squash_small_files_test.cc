// The small files of a data set, in the order in which they are stored.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "runtime/base/text.hh"
#include "runtime/mount/fuse/data_sweep.hh"
#include "runtime/squash/read/small_files.hh"
#include "tests/catch.hh"
#include "tests/fixtures/made_index.hh"

using namespace berth;

namespace {

/// Of which no other has the content, or they would be stored once.
void add(squash::LayerWriter& writer, const std::string& path, size_t size) {
    writer.begin_file(path, {});
    writer.append(std::string(size, path.back()));
    writer.end_file();
}

}  // namespace

TEST_CASE("small files: they come in the order in which they are stored", "[small]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        writer.add_directory("folder", {});
        // The tree has them by name.
        for (char name = 'z'; name >= 'a'; --name) add(writer, cat("folder/", name), 9000);
    });
    uint32_t folder = index.lookup(1, "folder");
    std::vector<uint32_t> expected;
    for (char name = 'z'; name >= 'a'; --name) expected.push_back(index.lookup(folder, std::string(1, name)));
    squash::SmallFiles files = squash::small_files(index, UINT64_MAX);
    CHECK(files.inodes == expected);
    // Three pages each, and the name.
    CHECK(files.memory >= 26 * 3 * 4096);
}

TEST_CASE("small files: directories, links, empty and large files are none", "[small]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        writer.add_directory("folder", {});
        writer.add_symlink("link", {}, "one");
        add(writer, "one", 1);
        add(writer, "empty", 0);
        add(writer, "largest", squash::largest_small_file);
        add(writer, "large", squash::largest_small_file + 1);
        writer.add_hardlink("same", "one");
    });
    squash::SmallFiles files = squash::small_files(index, UINT64_MAX);
    CHECK(files.inodes.size() == 2);
    for (uint32_t inode : files.inodes) CHECK((inode == index.lookup(1, "one") || inode == index.lookup(1, "largest")));
}

TEST_CASE("small files: of more than fit there are none", "[small]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        for (int number = 0; number < 10; ++number) add(writer, cat(number), 10);
    });
    uint64_t all = squash::small_files(index, UINT64_MAX).memory;
    CHECK(squash::small_files(index, all).inodes.size() == 10);
    squash::SmallFiles none = squash::small_files(index, all - 1);
    CHECK((none.inodes.empty() && none.memory == 0));
}

TEST_CASE("small files: who reads a few of them pays for no others", "[small]") {
    CHECK(mount::reads_before_sweep(0) == 256);
    CHECK(mount::reads_before_sweep(mount::worth_sweeping) == 256);
    CHECK(mount::reads_before_sweep(200'000) == 3125);
}
