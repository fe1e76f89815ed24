#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

const plan::ImageConfig sample_config = {.env = {"PATH=/bin", "EMPTY=", "LINE=a\nb"},
                                         .entrypoint = {"/bin/sh", "-c"},
                                         .cmd = {},
                                         .working_dir = "/work",
                                         .user = "1000:1000",
                                         .architecture = "amd64",
                                         .volumes = {"/data"}};

/// A layer with a bit of everything, and its index.
struct Sample {
    std::vector<LayerInfo> layers{{"sha256-one.zst.sqfs", Codec::zstd, 0}};
    Fd file{::memfd_create("layer", MFD_CLOEXEC)};
    std::string bytes;

    Sample() {
        LayerWriter writer(file.get(), {});
        Attributes tagged{.mode = 0600,
                          .xattrs = {{"user.a", "1"}, {"user.long", std::string(4000, 'l')}, {"user.none", ""}}};
        for (int i = 0; i < 300; ++i) {
            writer.begin_file(cat("d/", i), i % 2 ? tagged : Attributes{.mode = 0644, .xattrs = {}});
            std::string content = prose(static_cast<size_t>(i) * (i % 10 ? 10 : 1000), static_cast<uint32_t>(i));
            writer.append(content);
            writer.end_file();
        }
        writer.add_symlink("link", {}, "d/7");
        writer.add_special("fifo", {}, S_IFIFO);
        writer.finish();
        Tree tree = read_tree(file.get(), "layer", 0, layers[0]);
        bytes = build_index(tree, layers, sample_config);
    }
};

Fd file_of(const std::string& bytes) {
    Fd fd(::memfd_create("index", MFD_CLOEXEC));
    sys::write_all(fd.get(), bytes, "memory");
    return fd;
}

/// The header with right hashes again after a change.
std::string rehashed(std::string bytes) {
    format::Header header{};
    std::memcpy(&header, bytes.data(), sizeof header);
    header.header_hash = format::hash_of(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
}

}  // namespace

TEST_CASE("an index gives back the layers and the config it was made with", "[squash]") {
    Sample sample;
    Fd fd = file_of(sample.bytes);
    Index index = Index::open(fd.get(), "index");
    REQUIRE(index.layers().size() == 1);
    CHECK(index.layers()[0].name == "sha256-one.zst.sqfs");
    CHECK(index.layers()[0].codec == Codec::zstd);
    CHECK(index.layers()[0].block_size == 128 * 1024);
    plan::ImageConfig config = index.config();
    CHECK(config.env == sample_config.env);
    CHECK(config.entrypoint == sample_config.entrypoint);
    CHECK(config.cmd.empty());
    CHECK(config.working_dir == "/work");
    CHECK(config.user == "1000:1000");
    CHECK(config.architecture == "amd64");
    CHECK(config.volumes == sample_config.volumes);
}

TEST_CASE("an index is the same bytes for the same tree", "[squash]") {
    Sample one, two;
    CHECK((one.bytes == two.bytes));
}

TEST_CASE("names are found and inodes numbered from the root, breadth first", "[squash]") {
    Sample sample;
    Index index = Index::from_bytes(sample.bytes);
    CHECK(index.inode_count() == 304);
    CHECK(index.entry_count(1) == 3);
    CHECK(index.entry(1, 0)->name == "d");
    CHECK(index.entry(1, 1)->name == "fifo");
    CHECK(index.entry(1, 2)->name == "link");
    CHECK_FALSE(index.entry(1, 3));
    CHECK(index.lookup(1, "d") == 2);
    CHECK(index.parent(1) == 1);
    CHECK(index.parent(2) == 1);
    for (int i = 0; i < 300; ++i) CHECK(index.lookup(2, std::to_string(i)) > 4);
    for (const char* name : {"", "300", "9999", "~", "1 "}) CHECK(index.lookup(2, name) == 0);
    CHECK(index.lookup(index.lookup(1, "link"), "x") == 0);
    CHECK(index.lookup(0, "d") == 0);
    CHECK(index.lookup(99999, "d") == 0);
    CHECK(index.symlink_target(index.lookup(1, "link")) == "d/7");
    CHECK_FALSE(index.symlink_target(2));
    CHECK_FALSE(index.file(2));
    CHECK_FALSE(index.inode(305));
}

TEST_CASE("all of a tree is put into a directory of a new root", "[squash]") {
    Sample sample;
    std::vector<LayerInfo> layers(1);
    Tree tree = read_tree(sample.file.get(), "layer", 0, layers[0]);
    put_below(tree, "top");
    Index before = Index::from_bytes(sample.bytes), index = Index::from_bytes(build_index(tree, layers, {}));
    CHECK(index.inode_count() == before.inode_count() + 1);
    CHECK(index.entry_count(1) == 1);
    CHECK(index.entry(1, 0)->name == "top");
    CHECK(index.inode(1)->nlink == 3);
    CHECK((index.parent(1) == 1 && index.parent(2) == 1 && index.parent(3) == 2));
    for (uint32_t number = 1; number <= before.inode_count(); ++number) {
        auto was = before.inode(number), is = index.inode(number + 1);
        REQUIRE((was && is));
        CHECK((was->mode == is->mode && was->size == is->size && was->nlink == is->nlink && was->mtime == is->mtime));
        CHECK(before.entry_count(number) == index.entry_count(number + 1));
        CHECK(before.symlink_target(number) == index.symlink_target(number + 1));
    }
    for (const char* name : {"d", "fifo", "link"}) CHECK(index.lookup(2, name) == before.lookup(1, name) + 1);
    for (int i = 0; i < 300; ++i) CHECK(index.lookup(3, std::to_string(i)) == before.lookup(2, std::to_string(i)) + 1);
}

TEST_CASE("xattrs are given by name and in full", "[squash]") {
    Sample sample;
    Index index = Index::from_bytes(sample.bytes);
    CHECK(index.has_xattrs());
    uint32_t tagged = index.lookup(2, "7");
    CHECK(index.xattr_names(tagged) == std::vector<std::string_view>{"user.a", "user.long", "user.none"});
    CHECK(index.xattr(tagged, "user.long") == std::string(4000, 'l'));
    CHECK(index.xattr(tagged, "user.none") == "");
    CHECK_FALSE(index.xattr(tagged, "user.b"));
    CHECK(index.xattr_names(index.lookup(2, "8")).empty());
}

TEST_CASE("an index that can no longer be read is an error of the access, not the end of the process", "[squash]") {
    std::vector<LayerInfo> layers{{"layer", Codec::zstd, 0}};
    Fd layer(::memfd_create("layer", MFD_CLOEXEC));
    LayerWriter writer(layer.get(), {});
    for (int i = 0; i < 20'000; ++i) writer.add_symlink(cat("link-", i), {}, "target");
    writer.finish();
    std::string bytes = build_index(read_tree(layer.get(), "layer", 0, layers[0]), layers, {});
    Fd fd = file_of(bytes);
    Index index = Index::open(fd.get(), "index");
    CHECK(index.lookup(1, "link-1") != 0);
    CHECK(::ftruncate(fd.get(), static_cast<off_t>(bytes.size() / 2)) == 0);
    // What was read before stays.
    CHECK(index.lookup(1, "link-1") != 0);
    CHECK_THROWS_WITH(index.lookup(1, "link-9999"), "reading the index of the image: Input/output error");
    // The next access tries again: the file server may be back.
    CHECK(::pwrite(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    CHECK(index.lookup(1, "link-9999") != 0);
}

TEST_CASE("what is no index of this version is refused with the reason", "[squash]") {
    Sample sample;
    auto problem = [](const std::string& bytes) -> std::string {
        Fd fd = file_of(bytes);
        try {
            Index::open(fd.get(), "index");
        } catch (const Error& error) {
            return error.what();
        }
        return "no problem";
    };
    CHECK_THAT(problem(""), Catch::Contains("too short"));
    CHECK_THAT(problem(std::string(4096, 'x')), Catch::Contains("not an index"));
    std::string other = sample.bytes;
    other[8] = 9;
    CHECK_THAT(problem(other), Catch::Contains("format version 9"));
    other = sample.bytes;
    other[50] = static_cast<char>(other[50] ^ 4);
    CHECK_THAT(problem(other), Catch::Contains("header is damaged"));
    CHECK_THAT(problem(sample.bytes.substr(0, sample.bytes.size() - 8)), Catch::Contains("but should have"));
    CHECK_THAT(problem(rehashed(other)), Catch::Contains("outside the file"));
}

TEST_CASE("hostile row 48: no change of an index's bytes does more than make it wrong", "[squash]") {
    Sample sample;
    std::mt19937 random(7);
    std::vector<Fd> files;
    files.push_back(std::move(sample.file));
    DataReader reader(std::move(files), sample.layers, 1 << 20);
    for (int round = 0; round < 2000; ++round) {
        std::string bytes = sample.bytes;
        for (uint32_t i = random() % 8 + 1; i > 0; --i) {
            // One change in three goes to the header, whose hash is made right again: what is checked is not the hash.
            size_t at = random() % 3 ? random() % bytes.size() : random() % sizeof(format::Header);
            bytes[at] = static_cast<char>(random() % 2 ? bytes[at] ^ 1 << random() % 8 : random());
        }
        INFO("round " << round);
        try {
            walk_everything(Index::from_bytes(rehashed(bytes)), round % 10 == 0 ? &reader : nullptr);
        } catch (const Error& error) {
            CHECK(std::string(error.what()).find('\n') == std::string::npos);
        }
    }
}
