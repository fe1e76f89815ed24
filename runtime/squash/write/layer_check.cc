#include "runtime/squash/write/layer_check.hh"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/base/text.hh"
#include "runtime/squash/write/writer_tree.hh"

namespace berth::squash {

namespace {

constexpr uint32_t root = 1;
constexpr size_t zeros_at_once = 1 << 20;
constexpr size_t read_at_once = 1 << 20;

using Xattrs = std::map<std::string, std::string>;

[[noreturn]] void refuse(const std::string& path, const char* why) {
    throw LayerDiffers(cat("the layer file differs from its tar stream: /", printable(path), " ", why));
}

std::string below(const std::string& folder, std::string_view name) {
    return cat(folder, folder.empty() ? "" : "/", name);
}

/// Which file of the layer has had all bytes of an entry so far.
struct Content {
    uint32_t inode = 0;  ///< of the layer; 0: the one of the entry's name has others
    uint64_t size = 0;
};

/// Whether a file of the layer has the bytes of one of the tree.
using HasBytes = std::function<bool(const NewInode& wanted, uint32_t inode)>;

/// Whether the layer shows the tree.
class Comparison {
  public:
    Comparison(const Index& index, const std::vector<Xattrs>& xattrs, HasBytes has_bytes)
        : index_(index), xattrs_(xattrs), has_bytes_(std::move(has_bytes)) {}

    void run(const NewInode& tree_root) {
        meet(tree_root, root, "");
        // No recursion: depth is the image's choice.
        while (!pending_.empty()) {
            Pair next = std::move(pending_.back());
            pending_.pop_back();
            compare_names(next);
        }
    }

  private:
    struct Pair {
        const NewInode* directory;
        uint32_t inode;
        std::string path;
    };

    void compare_names(const Pair& pair) {
        uint32_t count = index_.entry_count(pair.inode), at = 0;
        for (const auto& [name, inode] : *pair.directory->children) {
            std::string path = below(pair.path, name);
            auto entry = at < count ? index_.entry(pair.inode, at++) : std::nullopt;
            if (!entry || entry->name > name) refuse(path, "is missing");
            if (entry->name != name) refuse(below(pair.path, entry->name), "is in no entry");
            meet(*inode, entry->inode, path);
        }
        if (at < count) refuse(below(pair.path, index_.entry(pair.inode, at)->name), "is in no entry");
    }

    /// The name is of `wanted` in the tree and of `inode` in the layer.
    void meet(const NewInode& wanted, uint32_t inode, const std::string& path) {
        auto [known, is_new] = met_.try_emplace(&wanted, inode);
        bool is_first = taken_.size() <= inode || !taken_[inode];
        if (known->second != inode || is_new != is_first) refuse(path, "is another hard link");
        if (!is_new) return;
        if (taken_.size() <= inode) taken_.resize(inode + 1);
        taken_[inode] = true;
        compare_inode(wanted, inode, path);
        if (wanted.is_directory()) pending_.push_back({&wanted, inode, path});
    }

    void compare_inode(const NewInode& wanted, uint32_t number, const std::string& path) {
        auto inode = index_.inode(number);
        if (!inode || inode->mode != wanted.mode) refuse(path, "is of another kind or mode");
        if (inode->uid != wanted.uid || inode->gid != wanted.gid) refuse(path, "has another owner");
        if (inode->mtime != wanted.mtime) refuse(path, "has another time");
        if (attributes_of(number) != xattrs_[wanted.xattr == no_xattrs ? 0 : wanted.xattr])
            refuse(path, "has other extended attributes");
        if (S_ISLNK(wanted.mode) && index_.symlink_target(number) != wanted.target) refuse(path, "leads elsewhere");
        if (S_ISREG(wanted.mode) && !has_bytes_(wanted, number)) refuse(path, "has other bytes");
    }

    Xattrs attributes_of(uint32_t number) const {
        Xattrs out;
        for (std::string_view name : index_.xattr_names(number))
            out.emplace(name, index_.xattr(number, name).value_or(std::string_view()));
        return out;
    }

    const Index& index_;
    const std::vector<Xattrs>& xattrs_;
    HasBytes has_bytes_;
    std::vector<Pair> pending_;
    std::unordered_map<const NewInode*, uint32_t> met_;
    std::vector<bool> taken_;
};

}  // namespace

struct LayerCheck::Impl {
    Impl(LayerFiles& files, std::function<const Origin&()> where, MakeContentHash make)
        : layer(files), origin(std::move(where)), make_hash(std::move(make)) {}

    void set(NewInode& inode, const Attributes& attributes) {
        uint32_t index = no_xattrs;
        if (!attributes.xattrs.empty()) {
            index = static_cast<uint32_t>(xattrs.size());
            xattrs.push_back(attributes.xattrs);
        }
        set_attributes(inode, attributes, index);
    }

    NewInode& add(std::string_view path, const Attributes& attributes, uint32_t type) {
        NewInode& inode = add_entry(tree, path, type);
        set(inode, attributes);
        return inode;
    }

    void begin(const NewInode& inode, std::string_view path) {
        file = layer.find(std::string(path));
        content = &contents[&inode];
        content->inode = file ? file->inode : 0;
        if (!file) hash = make_hash();
    }

    /// The bytes were read where the layer's file is to have them.
    bool come_from_there(std::string_view bytes) const {
        const Origin& from = origin();
        if (from.inode == 0 || from.inode != content->inode) return false;
        auto first = reinterpret_cast<uintptr_t>(from.bytes.data()), at = reinterpret_cast<uintptr_t>(bytes.data());
        bool is_inside = at >= first && at - first <= from.bytes.size() - std::min(bytes.size(), from.bytes.size());
        return is_inside && bytes.size() <= from.bytes.size() && from.offset + (at - first) == content->size;
    }
    bool has(std::string_view bytes) {
        buffer.resize(bytes.size());
        return layer.read(file->data, content->size, buffer) && std::equal(bytes.begin(), bytes.end(), buffer.begin());
    }

    void take(std::string_view bytes) {
        if (content->inode != 0 && !come_from_there(bytes) && !has(bytes)) leave_file();
        if (hash) hash->update(bytes);
        content->size += bytes.size();
    }

    /// A later entry has replaced what the layer has under this name. A hard link may have kept the bytes of this one.
    void leave_file() {
        hash = hash_of(content->inode, content->size);
        content->inode = 0;
    }

    /// Of the first bytes of a file of the layer.
    std::unique_ptr<ContentHash> hash_of(uint32_t inode, uint64_t size) {
        auto out = make_hash();
        auto data = layer.index().file(inode);
        std::string bytes;
        for (uint64_t at = 0; at < size; at += bytes.size()) {
            bytes.resize(std::min<uint64_t>(read_at_once, size - at));
            if (!data || !layer.read(*data, at, bytes))
                throw LayerDiffers("the layer file differs from its tar stream: bytes of a file cannot be read");
            out->update(bytes);
        }
        return out;
    }

    void end() {
        if (hash && content->size > 0) digests.emplace(content, hash->finish());
        hash.reset();
        content = nullptr;
    }

    bool has_bytes(const NewInode& wanted, uint32_t number) {
        const Content& was = contents.at(&wanted);
        auto inode = layer.index().inode(number);
        if (!inode || inode->size != was.size) return false;
        if (was.size == 0 || was.inode == number) return true;
        auto digest = digests.find(&was);
        Digest expected = digest != digests.end() ? digest->second : hash_of(was.inode, was.size)->finish();
        return hash_of(number, was.size)->finish() == expected;
    }

    LayerFiles& layer;
    std::function<const Origin&()> origin;
    MakeContentHash make_hash;
    EntryTree tree;
    std::vector<Xattrs> xattrs = std::vector<Xattrs>(1);  ///< the first is of those that have none
    std::unordered_map<const NewInode*, Content> contents;
    std::unordered_map<const Content*, Digest> digests;  ///< of those that the layer has not under their name
    uint64_t target_bytes = 0;  // of symlinks
    // of the file that is being taken
    std::optional<LayerFiles::File> file;
    Content* content = nullptr;
    std::unique_ptr<ContentHash> hash;  ///< of the bytes so far, once no file of that name has them
    std::string buffer;
};

LayerCheck::LayerCheck(LayerFiles& layer, std::function<const Origin&()> origin, MakeContentHash make_hash)
    : impl_(std::make_unique<Impl>(layer, std::move(origin), std::move(make_hash))) {}

LayerCheck::~LayerCheck() = default;

std::string LayerCheck::resolved(std::string_view path) const { return impl_->tree.resolved(path); }

uint64_t LayerCheck::memory() const { return impl_->tree.bytes() + impl_->target_bytes; }

void LayerCheck::add_directory(std::string_view path, const Attributes& attributes) {
    NewInode* existing = impl_->tree.find(path);
    if (existing != nullptr && existing->is_directory()) return impl_->set(*existing, attributes);
    impl_->add(path, attributes, S_IFDIR);
}

void LayerCheck::add_symlink(std::string_view path, const Attributes& attributes, std::string_view target) {
    impl_->add(path, attributes, S_IFLNK).target = target;
    impl_->target_bytes += target.size();
}

void LayerCheck::add_special(std::string_view path, const Attributes& attributes, uint32_t type) {
    impl_->add(path, attributes, checked_special(type));
}

void LayerCheck::add_hardlink(std::string_view path, std::string_view existing) {
    link_entry(impl_->tree, path, existing);
}

void LayerCheck::begin_file(std::string_view path, const Attributes& attributes, uint64_t) {
    impl_->begin(impl_->add(path, attributes, S_IFREG), path);
}

void LayerCheck::append(std::string_view data) { impl_->take(data); }

void LayerCheck::append_zeros(uint64_t size) {
    static const std::string zeros(zeros_at_once, '\0');
    for (size_t part; size > 0; size -= part) {
        part = std::min<uint64_t>(size, zeros.size());
        impl_->take(std::string_view(zeros).substr(0, part));
    }
}

void LayerCheck::end_file() { impl_->end(); }

void LayerCheck::remove(std::string_view path) { impl_->tree.remove(path); }

void LayerCheck::mark_implied_directories(std::string_view marker) {
    std::vector<NewInode*> directories = impl_->tree.implied_directories();
    if (directories.empty()) return;
    NewInode& file = impl_->tree.make(S_IFREG);
    impl_->set(file, {.mode = 0});
    for (NewInode* directory : directories) impl_->tree.put_in(*directory, marker, file);
    impl_->contents[&file];
}

void LayerCheck::finish() {
    auto has_bytes = [this](const NewInode& wanted, uint32_t inode) { return impl_->has_bytes(wanted, inode); };
    Comparison(impl_->layer.index(), impl_->xattrs, has_bytes).run(impl_->tree.root());
}

}  // namespace berth::squash
