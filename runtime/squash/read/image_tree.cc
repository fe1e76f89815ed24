#include "runtime/squash/read/image_tree.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

/// Rewrites the marks of an overlay as names of whiteouts, which merge() knows.
class Rewriter {
  public:
    explicit Rewriter(TreeData& tree) : tree_(tree), mark_(static_cast<uint32_t>(tree.nodes.size())) {}

    void run() {
        for (Node& node : tree_.nodes)
            if (S_ISDIR(node.mode)) directory(node);
        tree_.children = std::move(children_);
        // An empty file, which all whiteouts are.
        tree_.nodes.push_back({.mode = S_IFREG});
    }

  private:
    void directory(Node& node) {
        auto first = static_cast<ptrdiff_t>(children_.size());
        for (uint64_t i = node.first; i < node.first + node.count; ++i) {
            Child child = tree_.children[i];
            if (removes(tree_.nodes[child.node]))
                add(cat(".wh.", tree_.name(child)));
            else
                children_.push_back(child);
        }
        if (attribute(node, "user.overlay.opaque") == "y") add(".wh..wh..opq");
        std::sort(children_.begin() + first, children_.end(),
                  [&](const Child& a, const Child& b) { return tree_.name(a) < tree_.name(b); });
        node.first = static_cast<uint64_t>(first);
        node.count = static_cast<uint32_t>(children_.size() - node.first);
    }

    void add(const std::string& name) {
        children_.push_back({tree_.text.size(), mark_, static_cast<uint32_t>(name.size())});
        tree_.text += name;
    }

    bool removes(const Node& node) const {
        return (S_ISCHR(node.mode) && node.rdev == 0) ||
               (S_ISREG(node.mode) && node.size == 0 && attribute(node, "user.overlay.whiteout"));
    }

    std::optional<std::string_view> attribute(const Node& node, std::string_view name) const {
        for (const auto& [known, value] : tree_.xattr_sets[node.xattrs])
            if (known == name) return value;
        return std::nullopt;
    }

    TreeData& tree_;
    uint32_t mark_;
    std::vector<Child> children_;
};

/// Of the image, and of the overlay partitions of a SIF file.
std::vector<Extent> places_in(int fd, const std::string& what) {
    std::vector<Extent> out{find_squashfs(fd, what)};
    if (is_sif(fd))
        for (const Extent& overlay : find_sif_overlays(fd, what)) out.push_back(overlay);
    return out;
}

std::vector<Extent> places_in(const PartSums& sums) {
    std::vector<Extent> out;
    for (const PartSums::Part& part : sums.parts) out.push_back(part.place);
    return out;
}

}  // namespace

ImageTree read_image_file(int fd, const std::string& what, const TreeLimits& limits, const PartSums* sums) {
    std::vector<Extent> places = sums ? places_in(*sums) : places_in(fd, what);
    std::vector<LayerInfo> layers(places.size());
    std::vector<Tree> trees;
    for (size_t i = 0; i < places.size(); ++i)
        trees.push_back(read_tree(fd, what, static_cast<uint32_t>(i), layers[i], limits, places[i], sums));
    if (trees.size() == 1) return {std::move(trees[0]), std::move(layers), places[0]};
    for (const Tree& tree : trees)
        if (whiteout_names(tree) > 0)
            throw Error(cat("reading the SIF file ", printable(what, 4096),
                            ": it has an overlay partition, and a file whose name begins with .wh., which in layers "
                            "means a removed file; make one image of both with apptainer build --sandbox and name the "
                            "directory"));
    for (size_t i = 1; i < trees.size(); ++i) Rewriter(trees[i].data()).run();
    return {merge(std::move(trees)), std::move(layers), places[0]};
}

std::vector<Fd> for_each_layer(Fd file, size_t count) {
    std::vector<Fd> out;
    for (size_t i = 1; i < count; ++i) {
        out.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 3));
        if (!out.back()) throw SysError("opening the image once more");
    }
    out.push_back(std::move(file));
    return out;
}

}  // namespace berth::squash
