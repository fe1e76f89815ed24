#include "runtime/squash/index/tree.hh"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/squash/index/shown_mode.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

Tree::Tree(std::unique_ptr<TreeData> data) : data_(std::move(data)) {}
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;
Tree::~Tree() = default;

uint64_t Tree::names() const {
    return data_->children.size();
}

uint32_t TreeData::find(const Node& directory, std::string_view wanted) const {
    auto first = children.begin() + static_cast<ptrdiff_t>(directory.first);
    auto last = first + directory.count;
    auto found = std::lower_bound(first, last, wanted,
                                  [&](const Child& child, std::string_view key) { return name(child) < key; });
    return found != last && name(*found) == wanted ? found->node : Node::none;
}

namespace {

constexpr std::string_view opaque_mark = ".wh..wh..opq";

/// An object of both trees.
struct Both {
    uint32_t upper = 0, lower = 0;
};

}  // namespace

void restore_modes(Tree& upper, const Tree& lower, plan::ImageModes shown) {
    TreeData& over = upper.data();
    const TreeData& image = lower.data();
    std::vector<Both> pending{{}};
    while (!pending.empty()) {
        Both at = pending.back();
        pending.pop_back();
        Node& node = over.nodes[at.upper];
        const Node& below = image.nodes[at.lower];
        // A directory that hides the image's is another one, and so is all that is in it.
        if (S_ISDIR(node.mode) && over.find(node, opaque_mark) != Node::none) continue;
        if (node.mode == shown_mode(below.mode, shown)) node.mode = below.mode;
        if (!S_ISDIR(node.mode) || !S_ISDIR(below.mode)) continue;
        for (uint64_t i = node.first; i < node.first + node.count; ++i)
            if (uint32_t found = image.find(below, over.name(over.children[i])); found != Node::none)
                pending.push_back({over.children[i].node, found});
    }
}

void put_below(Tree& tree, std::string_view name) {
    TreeData& data = tree.data();
    for (Child& child : data.children) ++child.node;
    for (Node& node : data.nodes) ++node.parent;
    Node root{.mode = S_IFDIR | 0755, .mtime = data.nodes[0].mtime, .first = data.children.size(), .count = 1};
    data.nodes.insert(data.nodes.begin(), root);
    data.nodes[1].parent = 0;
    data.children.push_back({data.text.size(), 1, static_cast<uint32_t>(name.size())});
    data.text += name;
}

}  // namespace berth::squash
