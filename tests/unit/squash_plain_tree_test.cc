#include "runtime/squash/read/plain_tree.hh"

#include <sys/stat.h>

#include "runtime/squash/flatten/flatten.hh"
#include "runtime/squash/index/tree_data.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;

namespace {

/// A file and a directory with attributes, of two owners.
struct Layer {
    test::TempFolder folder;
    Fd file = folder.create("layer");
    LayerInfo info;

    Tree tree() {
        LayerWriter writer(file.get(), {});
        writer.add_directory("etc", {.mode = 0755, .uid = 5, .gid = 6, .xattrs = {{"user.overlay.opaque", "y"}}});
        writer.begin_file(
            "etc/name",
            {.mode = 0644, .uid = 1, .gid = 2, .xattrs = {{"user.colour", "red"}, {"security.capability", "all"}}});
        writer.end_file();
        writer.finish();
        return read_tree(file.get(), "layer", 0, info);
    }
};

}  // namespace

TEST_CASE("a plain tree has one owner and no attributes that containers are not shown", "[squash]") {
    Layer layer;
    Tree tree = layer.tree();
    CHECK_FALSE(is_plain(tree, 5, 6));
    make_plain(tree, 7, 8);
    CHECK(is_plain(tree, 7, 8));
    CHECK_FALSE(is_plain(tree, 7, 9));
    CHECK_FALSE(is_plain(tree, 0, 8));
    std::vector<Fd> layers;
    layers.push_back(std::move(layer.file));
    flatten(tree, layers, {layer.info}, {}, layer.folder.create("flat").get(), "flat");
    test::Opened opened = test::open_image(layer.folder / "flat");
    uint32_t name = test::at_path(opened.index, "etc/name");
    CHECK(opened.index.xattr_names(name) == std::vector<std::string_view>{"user.colour"});
    CHECK(opened.index.xattr_names(test::at_path(opened.index, "etc")).empty());
    CHECK(fixtures::Squashfs(layer.folder / "flat").line("etc/name").find(" 7/8 ") != std::string::npos);
}

TEST_CASE("a tree with a device node or a hidden attribute is not plain", "[squash]") {
    Layer layer;
    Tree tree = layer.tree();
    for (Node& node : tree.data().nodes) node.uid = node.gid = 0;
    CHECK_FALSE(is_plain(tree, 0, 0));
    make_plain(tree, 0, 0);
    CHECK(is_plain(tree, 0, 0));
    tree.data().nodes.back().mode = S_IFCHR | 0600;
    CHECK_FALSE(is_plain(tree, 0, 0));
}
