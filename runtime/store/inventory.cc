#include "runtime/store/inventory.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <set>
#include <tuple>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/hot.hh"
#include "runtime/store/names.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/scratch.hh"

namespace berth::store {

namespace {

constexpr size_t hex_length = 64;
constexpr size_t short_length = 12;

bool is_hex(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789abcdef") == text.npos; }

uint64_t disk_bytes(const struct stat& st) { return static_cast<uint64_t>(st.st_blocks) * 512; }

/// Empty for what is no layer that can be found: one that was retired.
std::string digest_in_name(const std::string& file) {
    return other_layer_file_name(file).empty() ? std::string() : file.substr(0, hex_length);
}

/// Every digest that a text mentions, as hex.
std::set<std::string> digests_in(std::string_view text) {
    constexpr std::string_view prefix = "sha256:";
    std::set<std::string> out;
    for (size_t at = text.find(prefix); at != text.npos; at = text.find(prefix, at + 1))
        if (std::string_view hex = text.substr(at + prefix.size(), hex_length); hex.size() == hex_length && is_hex(hex))
            out.emplace(hex);
    return out;
}

/// True when `digest` is the image's own, or that of an image index that means it on some architecture.
bool leads_to(const std::vector<StoredImageIndex>& indexes, const Digest& digest, const StoredImage& image) {
    if (digest == image.digest) return true;
    return std::any_of(indexes.begin(), indexes.end(), [&](const StoredImageIndex& index) {
        return index.digest == digest && index.image == image.digest;
    });
}

class Taking {
  public:
    /// `own`: null for a store of others.
    Taking(const Reader& store, const Store* own) : store_(store), own_(own) {}
    Inventory take();

  private:
    std::vector<std::string> names_in(const std::string& folder) const;
    void take_layers();
    void take_images();
    StoredImage image(const Digest& digest) const;
    std::string read_config(const Digest& digest) const;
    void keep_unread(StoredImage& image) const;
    void add_use(StoredImage& image) const;
    void take_coming();
    void take_image_indexes();
    void take_tags();
    void take_tag(const std::vector<std::string>& path, const std::string& file);
    void place(StoredTag tag);

    const Reader& store_;
    const Store* own_;
    Inventory out_;
};

Inventory Taking::take() {
    take_layers();
    take_images();
    take_coming();
    take_image_indexes();
    take_tags();
    if (own_ != nullptr) out_.hot_bytes = hot_disk_bytes(store_.directory("hot").get());
    return std::move(out_);
}

std::vector<std::string> Taking::names_in(const std::string& folder) const {
    return sys::list_directory(store_.directory(folder).get(), printable(cat(store_.path(), "/", folder), 4096));
}

void Taking::take_layers() {
    Fd folder = store_.directory("layers");
    for (const std::string& name : names_in("layers")) {
        struct stat st {};
        if (::fstatat(folder.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode)) continue;
        out_.layers.push_back({name, disk_bytes(st), st.st_mtime, 0});
    }
    std::sort(out_.layers.begin(), out_.layers.end(),
              [](const StoredLayer& a, const StoredLayer& b) { return a.file < b.file; });
}

void Taking::take_images() {
    for (const std::string& name : names_in("images"))
        if (auto digest = Digest::from_hex(name)) out_.images.push_back(image(*digest));
    std::sort(out_.images.begin(), out_.images.end(), [](const StoredImage& a, const StoredImage& b) {
        return std::tie(b.used, a.digest) < std::tie(a.used, b.digest);
    });
    for (const StoredImage& image : out_.images)
        for (size_t layer : image.layers) ++out_.layers[layer].images;
}

StoredImage Taking::image(const Digest& digest) const {
    StoredImage image{digest};
    try {
        Fd folder = store_.directory("images/" + digest.hex());
        for (const std::string& name : names_in("images/" + digest.hex())) {
            struct stat st {};
            if (::fstatat(folder.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
                throw SysError("examining a file of the store");
            image.own_bytes += disk_bytes(st);
            if (name == "manifest.json") image.pulled = st.st_mtime;
        }
        std::set<std::string> mentioned = digests_in(read_config(image.digest));
        for (size_t i = 0; i < out_.layers.size(); ++i)
            if (mentioned.contains(digest_in_name(out_.layers[i].file))) image.layers.push_back(i);
    } catch (const SysError& error) {
        // Gone meanwhile, or damaged: berth verify tells.
        if (error.number() != ENOENT) keep_unread(image);
    } catch (const Error&) {
        // Damaged as well.
    }
    image.used = image.pulled;
    if (own_ == nullptr) return image;
    image.pins = own_->pin_holders(image.digest);
    add_use(image);
    return image;
}

std::string Taking::read_config(const Digest& digest) const {
    Fd file = store_.find_document(digest, "config.json");
    if (!file) throw SysError(cat("opening the config of image ", digest), ENOENT);
    return sys::read_all(file.get(), document_limit, cat("config.json of the image ", digest));
}

/// What cannot be read now may be whole, and have any of the layers.
void Taking::keep_unread(StoredImage& image) const {
    image.in_use = true;
    image.layers.resize(out_.layers.size());
    std::iota(image.layers.begin(), image.layers.end(), size_t{0});
}

void Taking::add_use(StoredImage& image) const {
    Fd lease = store_.find("leases/" + image.digest.hex(), O_RDONLY | O_NOFOLLOW);
    if (!lease) return;
    image.used = std::max<int64_t>(image.used, sys::stat_of(lease.get(), "a lease").st_mtime);
    image.in_use |= ::flock(lease.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void Taking::take_coming() {
    if (own_ == nullptr) return;
    for (const Digest& digest : partials(*own_)) try {
            auto partial = find_partial(*own_, digest, Access::read);
            if (!partial) continue;
            ComingImage image{digest};
            for (const PartialLayer& layer : partial->layers) {
                image.bytes += layer.size;
                image.here_bytes += here_bytes(layer, *partial->map);
                if (layer.is_coming) image.disk_bytes += disk_bytes(sys::stat_of(layer.file.get(), "a layer"));
            }
            out_.coming.push_back(std::move(image));
        } catch (const Error&) {
            // Gone meanwhile, or damaged, which the next start mends.
        }
}

void Taking::take_image_indexes() {
    for (const std::string& name : names_in("lists")) {
        auto index = Digest::from_hex(name.substr(0, name.find('.')));
        auto image = store_.find_image_index(name);
        if (image && index) out_.image_indexes.push_back({name, *index, *image});
    }
}

void Taking::take_tags() {
    std::vector<std::vector<std::string>> paths(1);
    while (!paths.empty()) {
        std::vector<std::string> path = std::move(paths.back());
        paths.pop_back();
        std::string folder = "refs";
        for (const std::string& part : path) folder += "/" + part;
        std::vector<std::string> names;
        try {
            names = names_in(folder);
        } catch (const SysError& error) {
            // No folder, or a path longer than any of ours.
            if (error.number() == ENOENT || error.number() == ENOTDIR || error.number() == ENAMETOOLONG) continue;
            throw;
        }
        for (const std::string& name : names) {
            if (name.starts_with(":")) {
                take_tag(path, name);
            } else {
                paths.push_back(path);
                paths.back().push_back(name);
            }
        }
    }
}

void Taking::take_tag(const std::vector<std::string>& path, const std::string& file) {
    if (path.size() < 2) return;
    plan::Reference reference;
    reference.registry = path[0];
    if (!reference.registry.starts_with("_"))
        std::replace(reference.registry.begin(), reference.registry.end(), '_', ':');
    for (size_t i = 1; i < path.size(); ++i) reference.name += cat(i > 1 ? "/" : "", path[i]);
    reference.tag = file.substr(1);
    if (auto record = store_.find_tag(reference)) place({std::move(reference), record->digest, record->source});
}

void Taking::place(StoredTag tag) {
    bool placed = false;
    for (StoredImage& image : out_.images) {
        bool here = leads_to(out_.image_indexes, tag.digest, image);
        if (here) (tag.is_record() ? image.records : image.tags).push_back(tag);
        placed |= here;
    }
    for (ComingImage& image : out_.coming)
        if (!tag.is_record() && tag.digest == image.digest) image.tags.push_back(tag);
    if (!placed) out_.stray_tags.push_back(std::move(tag));
}

}  // namespace

uint64_t Inventory::bytes(const StoredImage& image) const {
    uint64_t sum = image.own_bytes;
    for (size_t layer : image.layers) sum += layers[layer].bytes;
    return sum;
}

uint64_t Inventory::shared_bytes(const StoredImage& image) const {
    uint64_t sum = 0;
    for (size_t layer : image.layers)
        if (layers[layer].images > 1) sum += layers[layer].bytes;
    return sum;
}

uint64_t Inventory::bytes() const {
    uint64_t sum = 0;
    for (const StoredImage& image : images) sum += image.own_bytes;
    for (const StoredLayer& layer : layers) sum += layer.bytes;
    for (const ComingImage& image : coming) sum += image.disk_bytes;
    return sum + hot_bytes;
}

const StoredImage* Inventory::find(const std::string& text) const {
    std::string hex = text.starts_with("sha256:") ? text.substr(7) : text;
    if (hex.size() >= short_length && hex.size() <= hex_length && is_hex(hex)) {
        const StoredImage* found = nullptr;
        for (const StoredImage& image : images) {
            if (!image.digest.hex().starts_with(hex)) continue;
            if (found)
                throw Error(
                    cat("image ", printable(text), ": more than one digest starts like this; write more digits"));
            found = &image;
        }
        if (found || text.starts_with("sha256:")) return found;
    }
    plan::Reference reference = plan::parse_reference(text);
    for (const StoredImage& image : images) {
        if (reference.digest && leads_to(image_indexes, *reference.digest, image)) return &image;
        auto same = [&](const StoredTag& tag) { return tag.text() == reference.text(); };
        if (!reference.digest && std::any_of(image.tags.begin(), image.tags.end(), same)) return &image;
    }
    return nullptr;
}

Inventory take_inventory(const Store& store) { return Taking(store.own(), &store).take(); }

Inventory take_inventory(const Reader& store) { return Taking(store, nullptr).take(); }

}  // namespace berth::store
