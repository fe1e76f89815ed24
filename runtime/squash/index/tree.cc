#include "runtime/squash/index/tree.hh"

#include <algorithm>

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

}  // namespace berth::squash
