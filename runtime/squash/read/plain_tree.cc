#include "runtime/squash/read/plain_tree.hh"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/squash/index/index.hh"
#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

namespace {

bool is_hidden(const std::pair<std::string, std::string>& xattr) { return !shows_xattr(xattr.first); }

}  // namespace

void make_plain(Tree& tree, uid_t uid, gid_t gid) {
    TreeData& in = tree.data();
    for (XattrSet& set : in.xattr_sets) std::erase_if(set, is_hidden);
    for (Node& node : in.nodes) {
        node.uid = uid;
        node.gid = gid;
        if (in.xattr_sets[node.xattrs].empty()) node.xattrs = 0;
    }
}

bool is_plain(const Tree& tree, uid_t uid, gid_t gid) {
    const TreeData& in = tree.data();
    return std::all_of(in.nodes.begin(), in.nodes.end(),
                       [&](const Node& node) {
                           return node.uid == uid && node.gid == gid && !S_ISCHR(node.mode) && !S_ISBLK(node.mode);
                       }) &&
           std::none_of(in.xattr_sets.begin(), in.xattr_sets.end(),
                        [](const XattrSet& set) { return std::any_of(set.begin(), set.end(), is_hidden); });
}

}  // namespace berth::squash
