// What the tests of squash share: sample trees, images made by mksquashfs, and the comparison of an index with a
// folder.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/squash/index/index.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/data.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/squash_walk.hh"

namespace berth::squash::test {

using fixtures::TempFolder;

/// Bytes that do not compress, or that do; the same for the same seed.
std::string noise(size_t size, uint32_t seed);
std::string prose(size_t size, uint32_t seed);

void write_file(const std::string& path, const std::string& content);
std::string read_file(const std::string& path);

/// Files of all kinds, sizes and names, with odd modes and times. `small` leaves the large ones out.
void make_sample_tree(const std::string& root, bool small = false);

/// False, said aloud or as a failure, when mksquashfs is missing.
bool have_mksquashfs();

/// Runs mksquashfs; the test fails when it does.
void make_image(const std::string& folder, const std::string& image, const std::string& options);

/// An index over one image, with the reader of its data.
struct Opened {
    Index index;
    DataReader reader;
};
Opened open_image(const std::string& image, size_t cache_bytes = 8 << 20);

/// Requires that `opened` holds exactly what the folder holds.
void require_same(Opened& opened, const std::string& folder);

/// The whole content of a file; throws Error when it cannot be read. `limit` bounds what hostile sizes can ask for.
std::string content_of(Opened& opened, uint32_t inode, size_t limit = SIZE_MAX);

/// The inode at a path like "a/b"; 0 when there is none.
uint32_t at_path(const Index& index, const std::string& path);

}  // namespace berth::squash::test
