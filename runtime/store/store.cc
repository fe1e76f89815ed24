#include "runtime/store/store.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/names.hh"
#include "runtime/store/scratch.hh"

namespace berth::store {

namespace {

constexpr size_t record_limit = 4096;
constexpr size_t document_limit = 4 << 20;

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
constexpr std::array folders{"layers", "images", "lists", "refs", "locks", "tmp", "leases", "pins", "unpacked"};

/// A path given by mistake (a home directory) must not be filled with our folders, let alone be swept.
void check_is_store(int root, const std::string& path) {
    for (const std::string& name : sys::list_directory(root, path))
        if (std::find(folders.begin(), folders.end(), name) == folders.end() && name != "lost+found")
            throw Error(cat("store ", printable(path), ": has other things in it, such as ", printable(name),
                            "; set store.path to a directory of its own"));
}

void make_folders(int root, const std::string& path) {
    if (::faccessat(root, folders.back(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) return;
    check_is_store(root, path);
    for (const char* name : folders)
        if (::mkdirat(root, name, 0700) != 0 && errno != EEXIST)
            throw SysError(cat("creating ", printable(path), "/", name));
}

/// The `KEY VALUE` lines of a file; none when it is not there.
std::map<std::string, std::string> read_record(const Fd& file, const std::string& path) {
    std::map<std::string, std::string> out;
    if (!file) return out;
    for (const std::string& line : split(sys::read_all(file.get(), record_limit, path), '\n'))
        if (size_t blank = line.find(' '); blank != line.npos) out[line.substr(0, blank)] = line.substr(blank + 1);
    return out;
}

}  // namespace

Store Store::open(const std::string& location) {
    if (location.empty()) throw Error("store: its path is empty; set store.path");
    std::string trimmed_path = location;
    // With a slash at its end the kernel would follow a symlink in spite of O_NOFOLLOW.
    while (trimmed_path.size() > 1 && trimmed_path.back() == '/') trimmed_path.pop_back();
    struct stat st {};
    if (::lstat(trimmed_path.c_str(), &st) != 0 && errno == ENOENT) sys::make_directories(trimmed_path, 0700);
    Fd root = open_root(trimmed_path);
    check_owner(root.get(), trimmed_path);
    make_folders(root.get(), trimmed_path);
    return Store(trimmed_path, std::move(root));
}

Fd Store::find(const std::string& path, int flags) const {
    try {
        return sys::open_beneath(root_.get(), path, flags);
    } catch (const SysError& error) {
        if (error.number() == ENOENT || error.number() == ENOTDIR) return {};
        throw SysError(cat("opening ", printable(shown(path), 4096)), error.number());
    }
}

Fd Store::open_object(const std::string& path, int flags, mode_t mode) const {
    try {
        return sys::open_beneath(root_.get(), path, flags, mode);
    } catch (const SysError& error) {
        throw SysError(cat("opening ", printable(shown(path), 4096)), error.number());
    }
}

std::optional<TagRecord> Store::find_tag(const plan::Reference& reference) const {
    if (reference.tag.empty()) return std::nullopt;
    std::string path = cat(refs_directory(reference), "/", tag_file(reference));
    auto record = read_record(find(path, O_RDONLY), path);
    auto digest = Digest::parse(record["digest"]);
    if (!digest) return std::nullopt;
    TagRecord out{*digest, 0, record["etag"], record["source"]};
    uint64_t time = 0;
    if (parse_number(record["time"], INT64_MAX, time)) out.time = static_cast<int64_t>(time);
    return out;
}

std::optional<Digest> Store::digest_of(const plan::Reference& reference) const {
    if (reference.digest) return reference.digest;
    auto record = find_tag(reference);
    return record ? std::optional(record->digest) : std::nullopt;
}

std::optional<Digest> Store::find_image_index(const std::string& name) const {
    std::string path = cat("lists/", name);
    return Digest::parse(read_record(find(path, O_RDONLY), path)["image"]);
}

std::optional<Digest> Store::image_of(const Digest& digest) const {
    auto is_here = [&](const Digest& image) { return bool(find(cat("images/", image.hex()), O_PATH | O_DIRECTORY)); };
    if (is_here(digest)) return digest;
    auto image = find_image_index(image_index_file(digest));
    return image && is_here(*image) ? image : std::nullopt;
}

Fd Store::open_document(const Digest& digest, const std::string& file) const {
    auto image = image_of(digest);
    if (!image)
        throw Error(cat("image ", digest, ": not in the store ", printable(path_),
                        "; bring it there with berth pull"));
    std::string path = cat("images/", image->hex(), "/", file);
    Fd out = find(path, O_RDONLY);
    if (!out) throw SysError(cat("opening ", printable(shown(path), 4096)), ENOENT);
    return out;
}

Fd Store::open_index(const Digest& digest) const { return open_document(digest, "index"); }

std::vector<Fd> Store::open_layers(const squash::Index& index) const {
    std::vector<Fd> out;
    for (const squash::LayerInfo& layer : index.layers()) {
        if (layer.name.empty() || layer.name.find('/') != layer.name.npos)
            throw Error(cat("store ", printable(path_), ": an index names the layer \"", printable(layer.name),
                            "\", which is no name of a layer; run berth verify --repair"));
        out.push_back(find(cat("layers/", layer.name), O_RDONLY));
        // An index outlives a layer that is fetched again, and may come to a name that its index does not know.
        if (std::string other = other_layer_file_name(layer.name); !out.back() && !other.empty())
            out.back() = find(cat("layers/", other), O_RDONLY);
        if (!out.back())
            throw Error(cat("layer ", printable(shown("layers/" + layer.name)),
                            ": missing from the store; pull the image again"));
    }
    return out;
}

std::string Store::layer_file(const Digest& diff_id) const {
    std::string name = layer_file_name(diff_id), former = former_layer_file_name(diff_id);
    auto is_here = [&](const std::string& file) { return bool(find(cat("layers/", file), O_PATH)); };
    return !is_here(name) && is_here(former) ? former : name;
}

Fd Store::open_layer(const Digest& diff_id) const { return find(cat("layers/", layer_file(diff_id)), O_RDONLY); }

void Store::touch_layer(const Digest& diff_id) const {
    if (Fd layer = open_layer(diff_id)) ::futimens(layer.get(), nullptr);
}

Lease Store::lease_image(const Digest& digest) const { return lease(image_of(digest).value_or(digest)); }

std::string Store::read_document(const Digest& digest, const std::string& file) const {
    return sys::read_all(open_document(digest, file).get(), document_limit, cat(file, " of the image ", digest));
}

}  // namespace berth::store
