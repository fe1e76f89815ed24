// Which files of an image are kept unpacked.
#include <set>
#include <string>

#include "runtime/squash/read/hot_files.hh"
#include "tests/catch.hh"
#include "tests/fixtures/made_index.hh"

using namespace berth;
using squash::HotFiles;
using squash::PrefetchList;

namespace {

void add(squash::LayerWriter& writer, const std::string& path, const squash::Attributes& attributes, size_t size = 10) {
    writer.begin_file(path, attributes);
    writer.append(std::string(size, 'x'));
    writer.end_file();
}

/// All inodes, the last ones first.
PrefetchList all_of(const squash::Index& index) {
    PrefetchList out{1, {}, {}};
    for (uint32_t inode = index.inode_count(); inode > 0; --inode) out.extents.push_back({inode, 0, 1});
    return out;
}

std::set<std::string> paths_of(const std::vector<squash::HotObject>& objects) {
    std::set<std::string> out;
    for (const squash::HotObject& object : objects) out.insert(object.path);
    return out;
}

HotFiles chosen(const squash::Index& index, uint64_t most = 1 << 20,
                plan::ImageModes modes = plan::ImageModes::enroot) {
    return squash::hot_files(index, all_of(index), modes, most);
}

}  // namespace

TEST_CASE("hot files: what a file of the node would show otherwise is left out", "[hot]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        writer.add_directory("lib", {.mode = 0750, .xattrs = {}});
        writer.add_directory("marked", {.mode = 0755, .xattrs = {{"user.a", "b"}}});
        add(writer, "plain", {.mode = 0644, .mtime = 77, .xattrs = {}});
        add(writer, "lib/deep/file", {.mode = 0640, .xattrs = {}});
        add(writer, "setuid", {.mode = 04755, .xattrs = {}});
        add(writer, "setgid", {.mode = 02755, .xattrs = {}});
        add(writer, "attribute", {.mode = 0644, .xattrs = {{"user.a", "b"}}});
        add(writer, "hidden", {.mode = 0644, .xattrs = {{"security.capability", "b"}}});
        add(writer, "marked/file", {.mode = 0644, .xattrs = {}});
        add(writer, "two", {.mode = 0644, .xattrs = {}});
        writer.add_hardlink("names", "two");
        writer.add_symlink("link", {.mode = 0777, .xattrs = {}}, "plain");
    });
    HotFiles files = chosen(index);
    CHECK(paths_of(files.files) == std::set<std::string>{"plain", "lib/deep/file", "hidden", "link"});
    CHECK(paths_of(files.directories) == std::set<std::string>{".", "lib", "lib/deep"});
    CHECK(files.directories.front().path == ".");
    CHECK(files.bytes == 30);
    for (const squash::HotObject& file : files.files)
        if (file.path == "plain") CHECK(file.mtime == 77);
}

TEST_CASE("hot files: a file whose owner may not read it, or not reach it, is left out", "[hot]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        writer.add_directory("closed", {.mode = 0055, .xattrs = {}});
        add(writer, "closed/file", {.mode = 0644, .xattrs = {}});
        add(writer, "secret", {.mode = 0000, .xattrs = {}});
        add(writer, "open", {.mode = 0400, .xattrs = {}});
    });
    CHECK(paths_of(chosen(index, 1 << 20, plan::ImageModes::image).files) == std::set<std::string>{"open"});
    CHECK(chosen(index).files.size() == 3);
}

TEST_CASE("hot files: the limit holds, and the list's order decides what goes in", "[hot]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        add(writer, "a", {.mode = 0644, .xattrs = {}}, 1000);
        add(writer, "b", {.mode = 0644, .xattrs = {}}, 5000);
        add(writer, "c", {.mode = 0644, .xattrs = {}}, 1000);
    });
    HotFiles files = chosen(index, 2500);
    CHECK(paths_of(files.files) == std::set<std::string>{"a", "c"});
    CHECK(files.bytes == 2000);
    CHECK(chosen(index, 6500).files.size() == 2);
    CHECK(chosen(index, 6500).files.front().path == "c");
    CHECK(chosen(index, 0).files.empty());
}

TEST_CASE("hot files: a directory of which nearly all is read is completed, with what is below it", "[hot]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        const squash::Attributes plain{.mode = 0644, .xattrs = {}}, directory{.mode = 0755, .xattrs = {}};
        for (const char* name : {"package", "package/code", "package/data", "large", "other"})
            writer.add_directory(name, directory);
        add(writer, "package/code/read", plain);
        add(writer, "package/source", plain, 1000);
        add(writer, "package/data/table", plain, 1000);
        writer.add_symlink("package/data/away", {.mode = 0777, .xattrs = {}}, "/etc/passwd");
        add(writer, "large/read", plain);
        add(writer, "large/rest", plain, squash::hot_rest_bytes + 1);
        writer.add_symlink("large/link", {.mode = 0777, .xattrs = {}}, "read");
        writer.add_symlink("large/second", {.mode = 0777, .xattrs = {}}, "link");
        writer.add_symlink("large/circle", {.mode = 0777, .xattrs = {}}, "circle");
        writer.add_symlink("large/to_rest", {.mode = 0777, .xattrs = {}}, "rest");
        add(writer, "other/file", plain);
    });
    auto number = [&](uint32_t directory, const char* name) { return index.lookup(directory, name); };
    uint32_t package = number(1, "package"), large = number(1, "large"), other = number(1, "other");
    PrefetchList list{1,
                      {{number(number(package, "code"), "read"), 0, 1}, {number(large, "read"), 0, 1}},
                      {{package, "none"}, {large, "none"}, {large, "rest"}, {other, "none"}, {99, "none"}}};
    HotFiles files = squash::hot_files(index, list, plan::ImageModes::enroot, 1 << 20);
    CHECK(paths_of(files.files) == std::set<std::string>{"package/code/read", "package/source", "package/data/table",
                                                         "package/data/away", "large/read", "large/link",
                                                         "large/second"});
    std::set<std::string> complete;
    for (const squash::HotObject& directory : files.directories)
        if (directory.complete) complete.insert(directory.path);
    CHECK(complete == std::set<std::string>{"package", "package/code", "package/data"});
    // Names that are there, and those of directories that are not kept or complete, are not missing.
    CHECK(files.missing == std::vector<std::string>{"large/none"});
    CHECK(files.bytes == 2020);
    // Where there is no room for the rest.
    CHECK(paths_of(squash::hot_files(index, list, plan::ImageModes::enroot, 500).directories).size() == 4);
}

TEST_CASE("hot files: a directory with something that cannot be kept is not complete", "[hot]") {
    squash::Index index = fixtures::made([](squash::LayerWriter& writer) {
        writer.add_directory("lib", {.mode = 0755, .xattrs = {}});
        add(writer, "lib/read", {.mode = 0644, .xattrs = {}});
        add(writer, "lib/setuid", {.mode = 04755, .xattrs = {}});
    });
    PrefetchList list{1, {{index.lookup(index.lookup(1, "lib"), "read"), 0, 1}}, {}};
    HotFiles files = squash::hot_files(index, list, plan::ImageModes::enroot, 1 << 20);
    CHECK(paths_of(files.files) == std::set<std::string>{"lib/read"});
    for (const squash::HotObject& directory : files.directories) CHECK_FALSE(directory.complete);
}

TEST_CASE("hostile: a list with inodes that are none, or twice, is no fault", "[hot]") {
    squash::Index index =
        fixtures::made([](squash::LayerWriter& writer) { add(writer, "a", {.mode = 0644, .xattrs = {}}); });
    PrefetchList list{1, {{0, 0, 1}, {1, 0, 1}, {2, 0, 1}, {2, 5, 1}, {3, 0, 1}, {UINT32_MAX, 0, 1}}, {}};
    CHECK(squash::hot_files(index, list, plan::ImageModes::enroot, 1 << 20).files.size() == 1);
    // A directory that was listed is no file.
    CHECK(squash::hot_files(index, {1, {{2, 0, 0}}, {}}, plan::ImageModes::enroot, 1 << 20).files.empty());
}

TEST_CASE("hot files: a folder is written anew when a quarter is missing", "[hot]") {
    CHECK(squash::is_worth_writing(0, 1));
    CHECK_FALSE(squash::is_worth_writing(0, 0));
    CHECK_FALSE(squash::is_worth_writing(100, 125));
    CHECK(squash::is_worth_writing(100, 126));
    CHECK_FALSE(squash::is_worth_writing(100, 50));
}
