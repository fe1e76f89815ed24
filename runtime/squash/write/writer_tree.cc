#include "runtime/squash/write/writer_tree.hh"

#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

/// Takes the first component off `path`.
std::string_view next_component(std::string_view& path) {
    size_t slash = path.find('/');
    std::string_view name = path.substr(0, slash);
    path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
    return name;
}

std::string_view checked(std::string_view name) {
    if (name.empty() || name == "." || name == "..")
        throw std::logic_error("a path given to the squashfs writer is not normalised");
    return name;
}

NewInode* child(const NewInode& directory, std::string_view name) {
    if (!directory.is_directory()) return nullptr;
    auto found = directory.children->find(name);
    return found == directory.children->end() ? nullptr : found->second;
}

/// A place in the tree on the way to a path: the names from the root and the directories they lead to.
struct Position {
    std::vector<std::string_view> names;
    std::vector<const NewInode*> directories;  // one more than names; the last is null where nothing exists yet

    void enter(std::string_view name, const NewInode* inode) {
        names.push_back(name);
        directories.push_back(inode);
    }
    void leave() {  // the parent of the root is the root
        if (names.empty()) return;
        names.pop_back();
        directories.pop_back();
    }
};

/// What an inode, the map of a directory and a name in it cost beside their bytes: their fields and the bookkeeping of
/// the heap.
constexpr uint64_t inode_cost = sizeof(NewInode) + 32, map_cost = 64, name_cost = 96;

/// As many symlinks as the kernel follows in one path.
constexpr unsigned symlink_limit = 40;

/// Where a symlink to `target` seen at `from` leads, when that is a directory of the tree.
std::optional<Position> follow(Position from, std::string_view target, unsigned& hops) {
    std::vector<std::string_view> rest;  // what is still to be walked, the innermost link last
    auto start = [&](std::string_view link) {
        if (link.starts_with('/')) from = Position{{}, {from.directories.front()}};
        rest.push_back(link);
    };
    start(target);
    while (!rest.empty()) {
        if (rest.back().empty()) {
            rest.pop_back();
            continue;
        }
        std::string_view name = next_component(rest.back());
        if (name.empty() || name == ".") continue;
        if (name == "..") {
            from.leave();
            continue;
        }
        const NewInode* inode = child(*from.directories.back(), name);
        if (inode == nullptr) return std::nullopt;
        if (S_ISLNK(inode->mode)) {
            if (++hops > symlink_limit) return std::nullopt;
            start(inode->target);
        } else if (inode->is_directory()) {
            from.enter(name, inode);
        } else {
            return std::nullopt;
        }
    }
    return from;
}

}  // namespace

EntryTree::EntryTree() : root_(&make(S_IFDIR | 0755)) {
    root_->links = 1;
    root_->implied = true;
}

NewInode& EntryTree::make(uint32_t mode) {
    NewInode& inode = inodes_.emplace_back();
    inode.mode = mode;
    bytes_ += inode_cost + (S_ISDIR(mode) ? map_cost : 0);
    if (S_ISDIR(mode)) inode.children = std::make_unique<std::map<std::string, NewInode*, std::less<>>>();
    return inode;
}

NewInode* EntryTree::find(std::string_view path) const {
    NewInode* inode = root_;
    while (inode != nullptr && !path.empty()) inode = child(*inode, checked(next_component(path)));
    return inode;
}

void EntryTree::put(std::string_view path, NewInode& inode) {
    NewInode* parent = root_;
    std::string_view name = checked(next_component(path));
    while (!path.empty()) {
        parent = &directory_at(*parent, name);
        name = checked(next_component(path));
    }
    auto [place, is_new] = parent->children->try_emplace(std::string(name), &inode);
    if (!is_new) {
        forget(*place->second);
        place->second = &inode;
    }
    count_name(name);
}

void EntryTree::remove(std::string_view path) {
    size_t slash = path.rfind('/');
    NewInode* parent = slash == path.npos ? root_ : find(path.substr(0, slash));
    if (parent == nullptr || !parent->is_directory()) return;
    auto found = parent->children->find(path.substr(slash == path.npos ? 0 : slash + 1));
    if (found == parent->children->end()) return;
    forget(*found->second);
    parent->children->erase(found);
}

void EntryTree::put_in(NewInode& directory, std::string_view name, NewInode& inode) {
    if (!directory.children->try_emplace(std::string(checked(name)), &inode).second)
        throw std::logic_error("a name is put into a directory that has it");
    count_name(name);
}

void EntryTree::count_name(std::string_view name) {
    ++size_;
    bytes_ += name_cost + name.size();
}

/// The directory `name` of `parent`, made when nothing or something else is there.
NewInode& EntryTree::directory_at(NewInode& parent, std::string_view name) {
    NewInode* found = child(parent, name);
    if (found != nullptr && found->is_directory()) return *found;
    NewInode& made = make(S_IFDIR | 0755);
    made.implied = true;
    if (found != nullptr) --size_;
    (*parent.children)[std::string(name)] = &made;
    count_name(name);
    return made;
}

/// Takes the names at and below `inode` off the count.
void EntryTree::forget(const NewInode& inode) {
    std::vector<const NewInode*> pending{&inode};  // no recursion: depth is the image's choice
    while (!pending.empty()) {
        const NewInode* next = pending.back();
        pending.pop_back();
        --size_;
        if (!next->is_directory()) continue;
        for (const auto& [name, below] : *next->children) pending.push_back(below);
    }
}

std::vector<NewInode*> EntryTree::implied_directories() const {
    std::vector<NewInode*> found, pending{root_};  // no recursion, as above
    while (!pending.empty()) {
        NewInode* inode = pending.back();
        pending.pop_back();
        for (const auto& [name, below] : *inode->children)
            if (below->is_directory()) pending.push_back(below);
        if (inode->implied) found.push_back(inode);
    }
    return found;
}

std::string EntryTree::resolved(std::string_view path) const {
    Position at{{}, {root_}};
    unsigned hops = 0;
    for (std::string_view rest = path; !rest.empty();) {
        std::string_view name = next_component(rest);
        const NewInode* inode = at.directories.back() == nullptr ? nullptr : child(*at.directories.back(), name);
        if (!rest.empty() && inode != nullptr && S_ISLNK(inode->mode)) {
            if (auto led = follow(at, inode->target, hops)) {
                at = std::move(*led);
                continue;
            }
        }
        at.enter(name, inode != nullptr && inode->is_directory() ? inode : nullptr);
    }
    std::string out;
    for (std::string_view name : at.names) {
        if (!out.empty()) out += '/';
        out += name;
    }
    return out;
}

void set_attributes(NewInode& inode, const Attributes& attributes, uint32_t xattr) {
    inode.mode = (inode.mode & S_IFMT) | (attributes.mode & 07777);
    inode.uid = attributes.uid;
    inode.gid = attributes.gid;
    inode.mtime =
        static_cast<uint32_t>(std::clamp<int64_t>(attributes.mtime, 0, std::numeric_limits<uint32_t>::max()));
    inode.xattr = xattr;
    inode.implied = false;
}

NewInode& add_entry(EntryTree& tree, std::string_view path, uint32_t type) {
    if (path.empty()) throw std::logic_error("the root of a squashfs file is a directory");
    NewInode& inode = tree.make(type);
    tree.put(path, inode);
    return inode;
}

void link_entry(EntryTree& tree, std::string_view path, std::string_view existing) {
    NewInode* inode = tree.find(existing);
    auto refuse = [&](const char* why) {
        throw Error(cat("making the hard link ", printable(path), " to ", printable(existing), ": ", why));
    };
    if (inode == nullptr) refuse("no such file in this layer");
    if (inode->is_directory() || path.empty()) refuse("a directory cannot be a hard link");
    tree.put(path, *inode);
}

uint32_t checked_special(uint32_t type) {
    if (!S_ISFIFO(type) && !S_ISSOCK(type))
        throw std::logic_error("only FIFOs and sockets are special files of a layer");
    return type & S_IFMT;
}

}  // namespace berth::squash
