#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

constexpr std::string_view whiteout_prefix = ".wh.";
constexpr std::string_view special_prefix = ".wh..wh.";
constexpr std::string_view opaque_name = ".wh..wh..opq";

/// A directory of one layer that is part of a merged directory.
struct Source {
    uint32_t layer = 0;
    uint32_t node = 0;
};

/// A name of one source. Rank 0 is the uppermost layer.
struct Candidate {
    std::string_view name;
    Source from;
    uint32_t rank = 0;
    bool whiteout = false;

    /// By name, then from the top down; a name before its own whiteout, which only concerns the layers below.
    bool operator<(const Candidate& other) const {
        if (int order = name.compare(other.name)) return order < 0;
        if (rank != other.rank) return rank < other.rank;
        return whiteout < other.whiteout;
    }
};

/// The sources of a directory of the result that is still to be filled, the uppermost first: a range of `sources_`.
struct Pending {
    size_t first = 0;
    size_t count = 0;
};

class Merger {
  public:
    explicit Merger(std::vector<Tree> layers);
    std::unique_ptr<TreeData> merge();

  private:
    const TreeData& in(const Source& source) const { return layers_[source.layer].data(); }
    const Node& node_of(const Source& source) const { return in(source).nodes[source.node]; }
    uint32_t add_directory(const Candidate* first, const Candidate* last, uint32_t parent);
    uint32_t add_node(const Source& source, uint32_t parent);
    uint32_t add_other(const Source& source, uint32_t parent);
    void copy_payload(const Source& source, Node& node);
    void copy_hashes(const TreeData& tree, uint64_t first, uint64_t count);
    void fill(uint32_t directory);
    void collect(const Pending& pending);
    bool collect_source(const Source& source, uint32_t rank);
    uint32_t add_group(const Candidate* first, const Candidate* last, uint32_t parent);
    Source attributes_of(const Pending& pending) const;

    std::vector<Tree> layers_;
    std::unique_ptr<TreeData> out_ = std::make_unique<TreeData>();
    std::vector<Source> sources_;
    std::vector<Pending> pending_;             ///< of each node of the result; used for directories
    std::vector<Candidate> candidates_;        ///< of the directory being filled
    /// for each layer and node that is no directory: 1 + its number in the result
    std::vector<std::vector<uint32_t>> done_;
    std::vector<std::vector<uint32_t>> fragments_;
    std::vector<std::vector<uint32_t>> xattr_sets_;
};

Merger::Merger(std::vector<Tree> layers) : layers_(std::move(layers)) {
    for (const Tree& layer : layers_) {
        done_.emplace_back(layer.data().nodes.size(), 0);
        fragments_.emplace_back(layer.data().fragments.size(), 0);
        xattr_sets_.emplace_back(layer.data().xattr_sets.size(), 0);
    }
}

std::unique_ptr<TreeData> Merger::merge() {
    std::vector<Candidate> roots;
    for (auto layer = static_cast<uint32_t>(layers_.size()); layer-- > 0;) roots.push_back({"", {layer, 0}, 0, false});
    add_directory(roots.data(), roots.data() + roots.size(), 0);
    for (size_t i = 0; i < out_->nodes.size(); ++i)
        if (S_ISDIR(out_->nodes[i].mode)) fill(static_cast<uint32_t>(i));
    return std::move(out_);
}

/// Collects the names of one source; false when it hides the sources below it.
bool Merger::collect_source(const Source& source, uint32_t rank) {
    const TreeData& tree = in(source);
    const Node& directory = node_of(source);
    bool opaque = false;
    for (uint64_t i = directory.first; i < directory.first + directory.count; ++i) {
        const Child& child = tree.children[i];
        std::string_view name = tree.name(child);
        if (!name.starts_with(whiteout_prefix)) {
            candidates_.push_back({name, {source.layer, child.node}, rank, false});
            continue;
        }
        if (name.starts_with(special_prefix)) {
            // The rest of these names is aufs' own bookkeeping, and our marker of an implied directory.
            opaque |= name == opaque_name;
            continue;
        }
        name.remove_prefix(whiteout_prefix.size());
        if (name.empty() || name == "." || name == "..")
            throw Error(cat("merging the layers of an image: layer ", source.layer + 1, " has the whiteout \".wh.",
                            name, "\", which names nothing; the image is refused"));
        candidates_.push_back({name, {}, rank, true});
    }
    return !opaque;
}

void Merger::collect(const Pending& pending) {
    candidates_.clear();
    for (uint32_t rank = 0; rank < pending.count; ++rank)
        if (!collect_source(sources_[pending.first + rank], rank)) break;
    if (!std::is_sorted(candidates_.begin(), candidates_.end())) std::sort(candidates_.begin(), candidates_.end());
}

void Merger::fill(uint32_t directory) {
    collect(pending_[directory]);
    out_->nodes[directory].first = out_->children.size();
    const Candidate* end = candidates_.data() + candidates_.size();
    for (const Candidate* first = candidates_.data(); first != end;) {
        const Candidate* last = first;
        while (last != end && last->name == first->name) ++last;
        if (!first->whiteout) {
            uint32_t node = add_group(first, last, directory);
            out_->children.push_back({out_->text.size(), node, static_cast<uint32_t>(first->name.size())});
            out_->text += first->name;
            ++out_->nodes[directory].count;
        }
        first = last;
    }
}

/// The node for a name that survives: `first` is its uppermost mention, what follows stands in lower layers.
uint32_t Merger::add_group(const Candidate* first, const Candidate* last, uint32_t parent) {
    if (!S_ISDIR(node_of(first->from).mode)) return add_other(first->from, parent);
    const Candidate* end = first;
    while (end != last && !end->whiteout && S_ISDIR(node_of(end->from).mode)) ++end;
    return add_directory(first, end, parent);
}

uint32_t Merger::add_directory(const Candidate* first, const Candidate* last, uint32_t parent) {
    Pending pending{sources_.size(), static_cast<size_t>(last - first)};
    for (; first != last; ++first) sources_.push_back(first->from);
    uint32_t number = add_node(attributes_of(pending), parent);
    pending_.resize(out_->nodes.size());
    pending_[number] = pending;
    return number;
}

/// The source whose attributes the merged directory has: the uppermost one that its layer really has an entry for.
Source Merger::attributes_of(const Pending& pending) const {
    for (size_t i = pending.first; i < pending.first + pending.count; ++i)
        if (in(sources_[i]).find(node_of(sources_[i]), implied_directory_marker) == Node::none) return sources_[i];
    return sources_[pending.first];
}

/// The node for what is no directory; a second name for it gives the same node.
uint32_t Merger::add_other(const Source& source, uint32_t parent) {
    uint32_t& done = done_[source.layer][source.node];
    if (done == 0) done = add_node(source, parent) + 1;
    return done - 1;
}

uint32_t Merger::add_node(const Source& source, uint32_t parent) {
    if (out_->nodes.size() >= std::numeric_limits<uint32_t>::max() - 1)
        throw Error("merging the layers of an image: it has more than 2^32 files; the image is refused");
    Node node = node_of(source);
    node.parent = parent;
    copy_payload(source, node);
    if (node.xattrs != 0) {
        uint32_t& set = xattr_sets_[source.layer][node.xattrs];
        if (set == 0) {
            set = static_cast<uint32_t>(out_->xattr_sets.size());
            out_->xattr_sets.push_back(in(source).xattr_sets[node.xattrs]);
        }
        node.xattrs = set;
    }
    out_->nodes.push_back(node);
    return static_cast<uint32_t>(out_->nodes.size() - 1);
}

/// Keeps `hashes` beside `blocks`, from the first layer on that has any.
void Merger::copy_hashes(const TreeData& tree, uint64_t first, uint64_t count) {
    if (tree.hashes.empty() && out_->hashes.empty()) return;
    out_->hashes.resize(out_->blocks.size());
    if (tree.hashes.empty()) return;
    auto from = tree.hashes.begin() + static_cast<ptrdiff_t>(first);
    std::copy(from, from + static_cast<ptrdiff_t>(count), out_->hashes.end() - static_cast<ptrdiff_t>(count));
}

/// Moves what a node refers to over to the result and points the node there.
void Merger::copy_payload(const Source& source, Node& node) {
    const TreeData& tree = in(source);
    uint64_t first = node.first;
    if (S_ISDIR(node.mode)) {
        node.first = node.count = 0;
    } else if (S_ISLNK(node.mode)) {
        node.first = out_->text.size();
        out_->text.append(tree.text, first, node.size);
    } else if (S_ISREG(node.mode)) {
        node.first = out_->blocks.size();
        auto from = tree.blocks.begin() + static_cast<ptrdiff_t>(first);
        out_->blocks.insert(out_->blocks.end(), from, from + node.count);
        copy_hashes(tree, first, node.count);
        if (node.fragment == Node::none) return;
        uint32_t& fragment = fragments_[source.layer][node.fragment];
        if (fragment == 0) {
            out_->fragments.push_back(tree.fragments[node.fragment]);
            out_->fragment_hashes.push_back(tree.fragment_hash(node.fragment));
            fragment = static_cast<uint32_t>(out_->fragments.size());
        }
        node.fragment = fragment - 1;
    }
}

}  // namespace

uint64_t whiteout_names(const Tree& tree) {
    const TreeData& in = tree.data();
    return static_cast<uint64_t>(std::ranges::count_if(
        in.children, [&](const Child& child) { return in.name(child).starts_with(whiteout_prefix); }));
}

Tree merge(std::vector<Tree> layers) {
    if (layers.empty()) {
        // An image without layers is legal: an empty root to put mounts into.
        auto tree = std::make_unique<TreeData>();
        tree->nodes.push_back({.mode = S_IFDIR | 0755});
        return Tree(std::move(tree));
    }
    return Tree(Merger(std::move(layers)).merge());
}

}  // namespace berth::squash
