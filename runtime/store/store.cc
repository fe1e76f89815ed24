#include "runtime/store/store.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"
#include "runtime/store/shared.hh"

namespace berth::store {

namespace {

Fd open_root(const std::string& path) {
    Fd root = sys::try_open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (root) return root;
    int number = errno;
    struct stat st {};
    if (::lstat(path.c_str(), &st) == 0 && S_ISLNK(st.st_mode))
        throw Error(cat("store ", printable(path), ": is a symlink; set store.path to the directory itself"));
    if (number == ENOTDIR)
        throw Error(cat("store ", printable(path), ": is not a directory; set store.path to a directory of your own"));
    throw SysError(cat("opening the store ", printable(path)), number);
}

void check_owner(int root, const std::string& path) {
    struct stat st = sys::stat_of(root, path);
    if (st.st_uid != ::geteuid())
        throw Error(cat("store ", printable(path), ": belongs to uid ", st.st_uid, ", not to you (uid ", ::geteuid(),
                        "); set store.path to a directory of your own"));
    if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        throw Error(cat("store ", printable(path),
                        ": can be written by other users, who could change images; run chmod go-w ", printable(path)));
}

// The last one's presence tells of all the others.
constexpr std::array folders{"layers", "images", "lists", "refs", "locks", "tmp", "leases", "pins", "unpacked",
                             "unproved", "partial", "prefetch", "hot"};

/// A path given by mistake (a home directory) must not be filled with our folders, let alone be swept.
void check_is_store(int root, const std::string& path) {
    for (const std::string& name : sys::list_directory(root, path))
        if (std::find(folders.begin(), folders.end(), name) == folders.end() && name != "lost+found")
            throw Error(cat("store ", printable(path), ": has other things in it, such as ", printable(name),
                            "; set store.path to a directory of its own"));
}

}  // namespace

Store Store::open(const Location& location) {
    if (location.path.empty()) throw Error("store: its path is empty; set store.path");
    const std::string& path = location.path;
    struct stat st {};
    if (::lstat(path.c_str(), &st) != 0 && errno == ENOENT) sys::make_directories(path, 0700);
    Store out(location, open_root(path));
    check_owner(out.own_.root(), path);
    out.make_folders();
    if (location.offered) out.offer();
    out.open_shared_stores();
    return out;
}

void Store::make_folders() const {
    int root = own_.root();
    if (::faccessat(root, folders.back(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return;
    check_is_store(root, path());
    for (const char* name : folders)
        if (::mkdirat(root, name, 0700) != 0 && errno != EEXIST)
            throw SysError(cat("creating ", printable(shown(name), 4096)));
}

void Store::open_shared_stores() {
    for (const std::string& path : location_.shared) try {
            if (auto store = store::open_shared(path, location_.shared_owner)) shared_.push_back(std::move(*store));
        } catch (const Error& error) {
            refused_.push_back(cat(error.what(), "; it is passed over"));
        }
}

Fd Store::open_object(const std::string& path, int flags, mode_t mode) const {
    try {
        return sys::open_beneath(own_.root(), path, flags, mode);
    } catch (const SysError& error) {
        throw SysError(cat("opening ", printable(shown(path), 4096)), error.number());
    }
}

namespace {

/// What `look` finds in a store of others; nothing when the store refuses it, or cannot be read just now.
template <typename Look>
auto looked_for(const Reader& store, const Look& look) -> decltype(look(store)) {
    try {
        return look(store);
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

/// Of this store, else of the first shared one that has it.
template <typename Look>
auto Store::first(const Look& look) const {
    auto out = look(own_);
    for (size_t i = 0; !out && i < shared_.size(); ++i) out = looked_for(shared_[i], look);
    return out;
}

std::optional<TagRecord> Store::find_tag(const plan::Reference& reference) const {
    auto out = own_.find_tag(reference);
    for (const Reader& store : shared_) {
        auto record = looked_for(store, [&](const Reader& one) { return one.find_tag(reference); });
        if (record && (!out || record->time > out->time)) out = std::move(record);
    }
    return out;
}

std::optional<Digest> Store::digest_of(const plan::Reference& reference) const {
    if (reference.digest) return reference.digest;
    auto record = find_tag(reference);
    return record ? std::optional(record->digest) : std::nullopt;
}

std::optional<Digest> Store::image_of(const Digest& digest) const {
    auto of_manifest = [](const Digest& image) {
        return [&image](const Reader& store) {
            return store.has_manifest(image) ? std::optional(image) : std::nullopt;
        };
    };
    if (first(of_manifest(digest))) return digest;
    auto image = first([&](const Reader& store) { return store.find_image_index(image_index_file(digest)); });
    return image ? first(of_manifest(*image)) : std::nullopt;
}

std::optional<Store::OpenedFiles> Store::try_shared(const Reader& store, const Digest& image) const try {
    Fd file = store.find_document(image, "index");
    if (!file) return std::nullopt;
    squash::Index index = squash::Index::open(file.get(), cat("the index of image ", image));
    std::vector<Fd> layers = open_layers(store, index);
    return OpenedFiles{std::move(index), std::move(layers), {}};
} catch (const Error&) {
    // Another release's index, say, or a layer that others could write to: this store has the image, or gets it.
    return std::nullopt;
}

Store::OpenedFiles Store::open_image(const Digest& digest) const {
    auto image = image_of(digest);
    for (const Reader& store : shared_)
        if (auto files = image ? try_shared(store, *image) : std::nullopt) return std::move(*files);
    // First of all: from here on nothing of the image is removed.
    Lease kept = image && own_.has_manifest(*image) ? lease(*image) : Lease();
    OpenedFiles files = open_own(digest);
    files.lease = std::move(kept);
    return files;
}

Store::OpenedFiles Store::open_own(const Digest& digest) const {
    Fd file = open_index(digest);
    squash::Index index = squash::Index::open(file.get(), cat("the index of image ", digest));
    std::vector<Fd> layers = open_layers(own_, index);
    return {std::move(index), std::move(layers), {}};
}

bool Store::can_open(const Digest& digest) const try {
    auto image = image_of(digest);
    for (const Reader& store : shared_)
        if (image && try_shared(store, *image)) return true;
    open_own(digest);
    return true;
} catch (const Error&) {
    return false;
}

Fd Store::open_index(const Digest& digest) const {
    auto image = image_of(digest);
    Fd out = image ? own_.find_document(*image, "index") : Fd();
    if (out) return out;
    if (image && own_.has_manifest(*image))
        throw SysError(cat("opening ", printable(shown(cat("images/", image->hex(), "/index")), 4096)), ENOENT);
    throw Error(
        cat("image ", digest, ": not in the store ", printable(path()), "; bring it there with berth pull"));
}

std::vector<Fd> Store::open_layers(const Reader& store, const squash::Index& index) const {
    std::vector<Fd> out;
    for (const squash::LayerInfo& layer : index.layers()) {
        if (layer.name.empty() || layer.name.find('/') != layer.name.npos)
            throw Error(cat("store ", printable(store.path()), ": an index names the layer \"", printable(layer.name),
                            "\", which is no name of a layer; run berth verify --repair"));
        bool elsewhere = !file_of_shared_layer(layer.name).empty();
        out.push_back(elsewhere ? open_shared_layer(layer.name) : store.find_layer(layer.name));
        if (!out.back())
            throw Error(cat("layer ", printable(elsewhere ? layer.name : store.shown("layers/" + layer.name)),
                            ": missing from the ", elsewhere ? "shared stores" : "store", "; pull the image again"));
    }
    return out;
}

Fd Store::open_shared_layer(const std::string& name) const {
    std::string file = file_of_shared_layer(name);
    for (const Reader& store : shared_) {
        Fd out = looked_for(store, [&](const Reader& one) {
            Fd layer = one.find_layer(file);
            return layer && shared_layer_name(layer.get(), file) == name ? std::move(layer) : Fd();
        });
        if (out) return out;
    }
    return {};
}

Store::Layer Store::find_layer(const Digest& diff_id) const {
    std::string file = layer_file(diff_id);
    if (Fd own = own_.find(cat("layers/", file), O_RDONLY)) return {std::move(own), file};
    for (const Reader& store : shared_) {
        Layer out = looked_for(store, [&](const Reader& one) {
            Layer layer{one.find_layer(file), {}, true};
            if (layer.file) layer.name = shared_layer_name(layer.file.get(), file);
            return layer;
        });
        if (out.file) return out;
    }
    return {{}, file};
}

void Store::touch_layer(const Digest& diff_id) const {
    if (Fd layer = own_.find(cat("layers/", layer_file(diff_id)), O_RDONLY)) ::futimens(layer.get(), nullptr);
}

Lease Store::lease_image(const Digest& digest) const { return lease(image_of(digest).value_or(digest)); }

std::string Store::read_document(const Digest& digest, const std::string& file) const {
    auto image = image_of(digest);
    if (!image)
        throw Error(cat("image ", digest, ": not in the store ", printable(path()),
                        "; bring it there with berth pull"));
    Fd found = first([&](const Reader& store) { return store.find_document(*image, file); });
    if (!found)
        throw SysError(cat("opening ", printable(shown(cat("images/", image->hex(), "/", file)), 4096)), ENOENT);
    return sys::read_all(found.get(), document_limit, cat(file, " of the image ", digest));
}

std::optional<std::string> Store::find_prefetch_list(const std::string& index, size_t limit) const {
    Fd file = own_.find(cat("prefetch/", index), O_RDONLY | O_NONBLOCK);
    if (!file) return std::nullopt;
    return sys::read_all(file.get(), limit, printable(shown(cat("prefetch/", index)), 4096));
}

std::optional<std::string> Store::find_document(const Digest& digest, const std::string& file, size_t limit) const {
    auto image = image_of(digest);
    Fd found = image ? first([&](const Reader& store) { return store.find_document(*image, file); }) : Fd();
    if (!found) return std::nullopt;
    return sys::read_all(found.get(), limit, cat(file, " of the image ", digest));
}

}  // namespace berth::store
