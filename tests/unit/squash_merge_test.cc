#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <functional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/data.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;
using namespace berth::squash::test;

namespace {

/// An image of layers that are written into memory.
class Layers {
  public:
    Layers& add(const std::function<void(LayerWriter&)>& fill) {
        Fd fd(::memfd_create("layer", MFD_CLOEXEC));
        LayerWriter writer(fd.get(), {});
        fill(writer);
        writer.finish();
        files_.push_back(std::move(fd));
        return *this;
    }

    Opened merged() {
        std::vector<LayerInfo> infos(files_.size());
        std::vector<Tree> trees;
        for (uint32_t i = 0; i < files_.size(); ++i)
            trees.push_back(read_tree(files_[i].get(), cat("layer ", i), i, infos[i]));
        Index index = Index::from_bytes(build_index(merge(std::move(trees)), infos, {}));
        return {std::move(index), DataReader(std::move(files_), infos, 1 << 20)};
    }

  private:
    std::vector<Fd> files_;
};

void file(LayerWriter& writer, const std::string& path, const std::string& content = "",
          const Attributes& attributes = {.mode = 0644, .xattrs = {}}) {
    writer.begin_file(path, attributes);
    writer.append(content);
    writer.end_file();
}

/// All paths of an index, "/" after directories, "=CONTENT" after files, "@TARGET" after symlinks.
std::string listing(Opened& opened, uint32_t directory = 1, const std::string& prefix = "") {
    std::string out;
    for (uint32_t i = 0; i < opened.index.entry_count(directory); ++i) {
        Entry entry = opened.index.entry(directory, i).value();
        out += cat(out.empty() ? "" : " ", prefix, entry.name);
        if (S_ISREG(entry.mode)) out += "=" + content_of(opened, entry.inode);
        if (S_ISLNK(entry.mode)) out += cat("@", opened.index.symlink_target(entry.inode).value());
        if (!S_ISDIR(entry.mode)) continue;
        std::string below = listing(opened, entry.inode, cat(prefix, entry.name, "/"));
        out += below.empty() ? "/" : cat("/ ", below);
    }
    return out;
}

std::string merged_listing(Layers& layers) {
    Opened opened = layers.merged();
    return listing(opened);
}

}  // namespace

TEST_CASE("names that a merge takes for whiteouts are counted, for who loses files by it", "[squash]") {
    Fd layer(::memfd_create("layer", MFD_CLOEXEC));
    LayerWriter writer(layer.get(), {});
    for (const char* name : {"a", ".wh.b", "d/.wh.c", "d/.whx", "d/x.wh.y"}) file(writer, name);
    writer.finish();
    LayerInfo info;
    CHECK(whiteout_names(read_tree(layer.get(), "image", 0, info)) == 2);
}

TEST_CASE("layers without shared names are laid side by side", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) { file(w, "a/1", "one"); })
        .add([](LayerWriter& w) { file(w, "b/2", "two"); })
        .add([](LayerWriter& w) { file(w, "a/3", "three"); });
    CHECK(merged_listing(layers) == "a/ a/1=one a/3=three b/ b/2=two");
}

TEST_CASE("no layers make an empty root", "[squash]") {
    Index index = Index::from_bytes(build_index(merge({}), {}, {}));
    CHECK(index.inode_count() == 1);
    CHECK(S_ISDIR(index.inode(1)->mode));
    CHECK(index.inode(1)->nlink == 2);
}

TEST_CASE("the upper layer's file wins, whatever the lower one was", "[squash]") {
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            file(w, "file", "old");
            file(w, "tree/inside", "gone");
            w.add_symlink("link", {}, "target");
            file(w, "becomes-tree", "old");
        })
        .add([](LayerWriter& w) {
            file(w, "file", "new");
            file(w, "tree", "now a file");
            file(w, "becomes-tree/inside", "x");
        });
    CHECK(merged_listing(layers) == "becomes-tree/ becomes-tree/inside=x file=new link@target tree=now a file");
}

TEST_CASE("hostile row 4: a file over a symlink of a lower layer replaces the symlink", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) { w.add_symlink("etc", {}, "/"); }).add([](LayerWriter& w) {
        file(w, "etc", "file");
    });
    CHECK(merged_listing(layers) == "etc=file");
}

TEST_CASE("a directory over a directory replaces the attributes alone", "[squash]") {
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            w.add_directory("d", {.mode = 0700, .uid = 1, .mtime = 1, .xattrs = {{"user.old", "1"}}});
            file(w, "d/lower", "l");
        })
        .add([](LayerWriter& w) {
            w.add_directory("d", {.mode = 01777, .uid = 2, .gid = 3, .mtime = 2, .xattrs = {{"user.new", "2"}}});
            file(w, "d/upper", "u");
        });
    Opened opened = layers.merged();
    CHECK(listing(opened) == "d/ d/lower=l d/upper=u");
    InodeView d = opened.index.inode(at_path(opened.index, "d")).value();
    CHECK(d.mode == (S_IFDIR | 01777));
    CHECK(d.uid == 2);
    CHECK(d.gid == 3);
    CHECK(d.mtime == 2);
    CHECK(opened.index.xattr_names(at_path(opened.index, "d")) == std::vector<std::string_view>{"user.new"});
}

TEST_CASE("a directory that a layer only implies keeps the attributes from below", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) { w.add_directory("tmp", {.mode = 01777, .xattrs = {}}); }).add([](LayerWriter& w) {
        file(w, "tmp/new", "n");
        file(w, cat("tmp/", implied_directory_marker));
    });
    Opened opened = layers.merged();
    CHECK(listing(opened) == "tmp/ tmp/new=n");
    CHECK(opened.index.inode(at_path(opened.index, "tmp"))->mode == (S_IFDIR | 01777));
}

TEST_CASE("a whiteout removes the name of lower layers, and a later layer may give it again", "[squash]") {
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            file(w, "keep", "k");
            file(w, "gone", "g");
            file(w, "tree/a", "a");
            file(w, "again/lower", "l");
        })
        .add([](LayerWriter& w) {
            file(w, ".wh.gone");
            file(w, ".wh.tree");
            file(w, ".wh.again");
            file(w, ".wh.never-was");
        })
        .add([](LayerWriter& w) { file(w, "again/upper", "u"); });
    CHECK(merged_listing(layers) == "again/ again/upper=u keep=k");
}

TEST_CASE("hostile row 10: a whiteout of nothing is refused", "[squash]") {
    for (const char* name : {".wh.", ".wh..", ".wh..."}) {
        Layers layers;
        layers.add([&](LayerWriter& w) { file(w, cat("d/", name)); });
        CHECK_THROWS_WITH(layers.merged(), Catch::Contains("names nothing"));
    }
}

TEST_CASE("hostile row 11: an opaque marker has the same effect whatever its place among its siblings", "[squash]") {
    // "!" sorts before ".wh..wh..opq" and "z" after it; the layer's own names stay, all lower ones go.
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            for (const char* name : {"d/!low", "d/low", "d/zlow", "d/sub/deep", "outside"}) file(w, name, "l");
        })
        .add([](LayerWriter& w) { file(w, "d/middle", "m"); })
        .add([](LayerWriter& w) {
            file(w, "d/!up", "u");
            file(w, "d/zlow", "u");
            file(w, "d/sub/new", "u");
            file(w, "d/.wh..wh..opq");
        })
        .add([](LayerWriter& w) { file(w, "d/later", "x"); });
    CHECK(merged_listing(layers) == "d/ d/!up=u d/later=x d/sub/ d/sub/new=u d/zlow=u outside=l");
}

TEST_CASE("an opaque root hides all lower layers", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) { file(w, "old", "o"); }).add([](LayerWriter& w) {
        file(w, ".wh..wh..opq");
        file(w, "new", "n");
    });
    CHECK(merged_listing(layers) == "new=n");
}

TEST_CASE("hostile row 12: a name beside its own whiteout survives, without what was below it", "[squash]") {
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            file(w, "file", "old");
            file(w, "tree/old", "old");
        })
        .add([](LayerWriter& w) {
            file(w, ".wh.file");
            file(w, "file", "new");
            file(w, "tree/new", "new");
            file(w, ".wh.tree");
        });
    CHECK(merged_listing(layers) == "file=new tree/ tree/new=new");
}

TEST_CASE("aufs bookkeeping does not survive", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) {
        file(w, ".wh..wh.plnk/12.34", "x");
        file(w, ".wh..wh.aufs", "x");
        file(w, ".wh..wh.orph/a", "x");
        file(w, "d/.wh..wh..opq");
        file(w, "real", "r");
    });
    CHECK(merged_listing(layers) == "d/ real=r");
}

TEST_CASE("a directory over a file over a directory does not bring the lowest back", "[squash]") {
    Layers layers;
    layers.add([](LayerWriter& w) { file(w, "x/bottom", "b"); })
        .add([](LayerWriter& w) { file(w, "x", "file"); })
        .add([](LayerWriter& w) { file(w, "x/top", "t"); });
    CHECK(merged_listing(layers) == "x/ x/top=t");
}

TEST_CASE("hard links stay one inode within their layer", "[squash]") {
    Layers layers;
    layers
        .add([](LayerWriter& w) {
            file(w, "one", "shared");
            w.add_hardlink("d/two", "one");
            w.add_hardlink("three", "one");
            w.add_symlink("four", {}, "target");
            w.add_hardlink("d/five", "four");
        })
        .add([](LayerWriter& w) { file(w, "three", "own"); });
    Opened opened = layers.merged();
    const Index& index = opened.index;
    CHECK(listing(opened) == "d/ d/five@target d/two=shared four@target one=shared three=own");
    CHECK(at_path(index, "one") == at_path(index, "d/two"));
    CHECK(at_path(index, "one") != at_path(index, "three"));
    CHECK(index.inode(at_path(index, "one"))->nlink == 2);
    CHECK(index.inode(at_path(index, "three"))->nlink == 1);
    CHECK(at_path(index, "four") == at_path(index, "d/five"));
    CHECK(index.inode(1)->nlink == 3);
}

TEST_CASE("data of many layers stays with its layer", "[squash]") {
    Layers layers;
    std::vector<std::string> contents;
    for (uint32_t i = 0; i < 20; ++i) {
        contents.push_back(prose(200000 + i, i) + noise(50000, i));
        layers.add([&](LayerWriter& w) {
            file(w, cat("d", i % 3, "/file", i), contents[i]);
            file(w, "common", contents[i]);
        });
    }
    Opened opened = layers.merged();
    for (uint32_t i = 0; i < 20; ++i)
        CHECK((content_of(opened, at_path(opened.index, cat("d", i % 3, "/file", i))) == contents[i]));
    CHECK((content_of(opened, at_path(opened.index, "common")) == contents[19]));
}
