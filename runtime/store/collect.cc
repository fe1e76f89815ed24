#include "runtime/store/collect.hh"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/store/extracted.hh"
#include "runtime/store/hot.hh"
#include "runtime/store/lease_holders.hh"
#include "runtime/store/names.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/retired.hh"

namespace berth::store {

namespace {

constexpr int64_t lock_file_age = 24 * 3600;
constexpr int64_t partial_age = 24 * 3600;

/// What would be left when images go one after the other.
class Remainder {
  public:
    explicit Remainder(const Inventory& inventory) : inventory_(inventory), bytes_(inventory.bytes()) {
        for (const StoredLayer& layer : inventory.layers) {
            uses_.push_back(layer.images);
            if (layer.images == 0) bytes_ -= layer.bytes;
        }
    }
    void remove(const StoredImage& image) {
        bytes_ -= image.own_bytes;
        for (size_t layer : image.layers)
            if (--uses_[layer] == 0) bytes_ -= inventory_.layers[layer].bytes;
    }
    uint64_t bytes() const { return bytes_; }
    bool needs(size_t layer) const { return uses_[layer] > 0; }

  private:
    const Inventory& inventory_;
    std::vector<size_t> uses_;
    uint64_t bytes_;
};

/// Acts under the lock that holds off pulls.
class Remover {
  public:
    Remover(const Store& store, bool dry)
        : store_(store),
          dry_(dry),
          certain_(store.locks_are_certain()),
          retires_(store.is_offered() && !certain_),
          now_(::time(nullptr)) {}

    /// False when the image is in use.
    bool image(const Inventory& inventory, const StoredImage& image);
    void layers(const Inventory& inventory, const Remainder& rest);
    void strays(const Inventory& inventory);
    void extracted(const Inventory& inventory, int64_t age);
    void lock_files();
    void partial();
    /// Removes what was retired so many seconds ago.
    void retired(int64_t age);
    Removed take_result() { return std::move(result_); }

  private:
    bool may_be_needed_elsewhere(int64_t time) const { return !certain_ && now_ - time < uncertain_age; }
    void forget(const Inventory& inventory, const StoredImage& image);

    const Store& store_;
    bool dry_;
    bool certain_;
    bool retires_;  ///< other hosts read what is removed, and their open files keep nothing alive
    int64_t now_;
    Removed result_;
};

void remove_file(const Store& store, const std::string& folder, const std::string& name) {
    if (::unlinkat(store.directory(folder).get(), name.c_str(), 0) != 0 && errno != ENOENT)
        throw SysError(cat("removing ", printable(cat(store.path(), "/", folder, "/", name), 4096)));
}

void forget_tag(const Store& store, const StoredTag& tag) {
    std::string folder = refs_directory(tag.reference);
    remove_file(store, folder, tag_file(tag.reference));
    // The folders that are empty now; a tag that comes meanwhile keeps its own, or makes it again.
    for (; folder != "refs"; folder.erase(folder.rfind('/'))) {
        size_t slash = folder.rfind('/');
        if (::unlinkat(store.directory(folder.substr(0, slash)).get(), folder.c_str() + slash + 1, AT_REMOVEDIR) != 0)
            return;
    }
}

/// Index::id() of an image; empty when it cannot be read.
std::string index_of(const Store& store, const Digest& digest) try {
    return squash::Index::open(store.open_index(digest).get(), "an index").id();
} catch (const Error&) {
    return {};
}

bool Remover::image(const Inventory& inventory, const StoredImage& image) {
    std::string hex = image.digest.hex();
    Lock claim = store_.claim(image.digest);
    // A pin may have come since the inventory was taken; whoever makes one has a lease meanwhile.
    if (!claim || !store_.pin_holders(image.digest).empty()) return false;
    if (!dry_) {
        std::string index = index_of(store_, image.digest);
        forget(inventory, image);
        retires_ ? retire(store_, "images", hex) : remove_object(store_, "images", hex);
        remove_extracted(store_, image.digest);
        if (!index.empty()) remove_hot_of(store_, index);
        remove_file(store_, "leases", hex);
    }
    result_.images.push_back(image);
    result_.bytes += image.own_bytes;
    return true;
}

/// Names go before what they name: a kill in between leaves an image without a name, which is a whole one.
void Remover::forget(const Inventory& inventory, const StoredImage& image) {
    for (const StoredTag& tag : image.tags) forget_tag(store_, tag);
    for (const StoredTag& record : image.records) forget_tag(store_, record);
    for (const StoredImageIndex& index : inventory.image_indexes)
        if (index.image == image.digest) remove_file(store_, "lists", index.file);
}

void Remover::layers(const Inventory& inventory, const Remainder& rest) {
    for (size_t i = 0; i < inventory.layers.size(); ++i) {
        const StoredLayer& layer = inventory.layers[i];
        if (rest.needs(i) || may_be_needed_elsewhere(layer.time) || is_retired(layer.file)) continue;
        if (!dry_) retires_ ? retire(store_, "layers", layer.file) : remove_file(store_, "layers", layer.file);
        ++result_.layers;
        result_.bytes += layer.bytes;
    }
}

void Remover::strays(const Inventory& inventory) {
    if (dry_ || !certain_) return;
    store_.sweep_pins();
    for (const StoredTag& tag : inventory.stray_tags)
        // What a tag of a SIF file meant last goes with the file.
        if (!tag.is_record() || sif_path(store_, tag.digest).empty()) forget_tag(store_, tag);
    for (const StoredImageIndex& index : inventory.image_indexes)
        if (std::none_of(inventory.images.begin(), inventory.images.end(),
                         [&](const StoredImage& image) { return image.digest == index.image; }))
            remove_file(store_, "lists", index.file);
}

void Remover::retired(int64_t age) {
    RetiredObjects removed = remove_retired(store_, age, now_, dry_);
    result_.layers += removed.layers;
    result_.bytes += removed.bytes;
}

/// What image files were extracted to goes when it has not been used for long: the file may have gone or changed. That
/// of an image goes with the image.
void Remover::extracted(const Inventory& inventory, int64_t age) {
    if (dry_) return;
    for (const Digest& digest : extracted_digests(store_)) {
        if (std::any_of(inventory.images.begin(), inventory.images.end(),
                        [&](const StoredImage& image) { return image.digest == digest; }))
            continue;
        Lock claim = store_.claim(digest);
        if (!claim || now_ - sys::stat_of(claim.fd(), "a lease").st_mtime < age) continue;
        remove_extracted(store_, digest);
        remove_file(store_, "leases", digest.hex());
    }
}

/// Of digests that were fetched once; whoever opened one just now finds it without a name and makes another. And files
/// of turns (turn.hh) whose holders were killed.
void Remover::lock_files() {
    if (dry_) return;
    Fd folder = store_.directory("locks");
    for (const std::string& name : sys::list_directory(folder.get(), printable(store_.path() + "/locks", 4096))) {
        bool is_lock = Digest::from_hex(name).has_value(), is_turn = name.ends_with(".turn") || name.starts_with('.');
        if (!is_turn && !(is_lock && certain_)) continue;
        Fd file = store_.find("locks/" + name, O_RDONLY | O_NOFOLLOW);
        if (file && now_ - sys::stat_of(file.get(), name).st_mtime > lock_file_age &&
            ::flock(file.get(), LOCK_EX | LOCK_NB) == 0)
            ::unlinkat(folder.get(), name.c_str(), 0);
    }
}

/// What started before it was here, and has stopped coming: a later start goes on with it for a day.
void Remover::partial() {
    if (dry_) return;
    for (const Digest& manifest : partials(store_)) {
        if (store_.own().has_manifest(manifest)) {
            remove_partial(store_, manifest);
            continue;
        }
        Fd folder = store_.find(cat("partial/", manifest.hex()), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (!folder || now_ - sys::stat_of(folder.get(), "an image that comes").st_mtime <= partial_age) continue;
        Lock claim = store_.claim(manifest);
        if (!claim) continue;
        remove_partial(store_, manifest);
        remove_file(store_, "leases", manifest.hex());
    }
}

int64_t age_by_tag(const KeepLimits& limits) { return limits.age > 0 ? limits.age : untagged_age; }

}  // namespace

std::vector<size_t> images_to_remove(const Inventory& inventory, const KeepLimits& limits, int64_t now) {
    std::vector<size_t> out;
    Remainder rest(inventory);
    // The last used come first in the inventory.
    for (size_t i = inventory.images.size(); i-- > 0;) {
        const StoredImage& image = inventory.images[i];
        int64_t age = now - image.used;
        if (image.in_use || !image.pins.empty() || age < fresh_age) continue;
        if (limits.by_tag && (!image.tags.empty() || age <= age_by_tag(limits))) continue;
        bool too_old = (limits.age > 0 && age > limits.age) || (image.tags.empty() && age > untagged_age);
        if (!too_old && !limits.by_tag && (limits.bytes == 0 || rest.bytes() <= limits.bytes)) continue;
        rest.remove(image);
        out.push_back(i);
    }
    return out;
}

std::optional<Removed> collect(const Store& store, const KeepLimits& wanted, bool dry, bool wait) {
    KeepLimits limits = store.is_offered() ? KeepLimits{0, wanted.age, true} : wanted;
    Lock turn = store.hold_off_pulls(wait);
    if (!turn) return std::nullopt;
    if (!dry) store.sweep();
    Inventory inventory = take_inventory(store);
    // What an image has besides its layers goes before any image.
    if (!dry && limits.bytes != 0 && inventory.hot_bytes != 0 && inventory.bytes() > limits.bytes) {
        sweep_hot(store, -1);
        inventory = take_inventory(store);
    }
    Remover remover(store, dry);
    Remainder rest(inventory);
    for (size_t i : images_to_remove(inventory, limits, ::time(nullptr)))
        if (remover.image(inventory, inventory.images[i])) rest.remove(inventory.images[i]);
    remover.layers(inventory, rest);
    if (limits.by_tag) remover.retired(age_by_tag(limits));
    remover.strays(inventory);
    remover.extracted(inventory, limits.age > 0 ? limits.age : untagged_age);
    remover.partial();
    if (!dry) sweep_hot(store, limits.age > 0 ? limits.age : untagged_age);
    remover.lock_files();
    return remover.take_result();
}

namespace {

std::string users_of(const Store& store, const Digest& digest) {
    Fd lease = store.find("leases/" + digest.hex(), O_RDONLY | O_NOFOLLOW);
    return lease ? described_holders(lease.get()) : "";
}

}  // namespace

Removed remove_image(const Store& store, const Digest& digest) {
    Lock turn = store.hold_off_pulls(true);
    Inventory inventory = take_inventory(store);
    auto image = std::find_if(inventory.images.begin(), inventory.images.end(),
                              [&](const StoredImage& one) { return one.digest == digest; });
    if (image == inventory.images.end())
        throw Error(cat("image ", digest, ": not in the store ", printable(store.path()),
                        "; berth images lists what is"));
    Remover remover(store, false);
    if (!image->pins.empty())
        throw Error(cat("removing the image ", digest, ": the container kept at ", printable(image->pins.front(), 4096),
                        " is made of it; remove that first with berth rm"));
    if (!remover.image(inventory, *image)) {
        std::string users = users_of(store, digest);
        throw Error(cat("removing the image ", digest, ": it is in use by a running container",
                        users.empty() ? "" : ", ", users, "; try again when that has ended"));
    }
    Remainder rest(inventory);
    rest.remove(*image);
    remover.layers(inventory, rest);
    return remover.take_result();
}

void remove_tag(const Store& store, const StoredTag& tag) {
    Lock turn = store.hold_off_pulls(true);
    // From now on the image is without this name: its age counts from here where others read the store.
    if (store.is_offered() && store.has_image(tag.digest)) Lease named = store.lease_image(tag.digest);
    forget_tag(store, tag);
}

void discard_image(const Store& store, const Digest& digest) { remove_object(store, "images", digest.hex()); }

void discard_layer(const Store& store, const std::string& file, int fd) {
    struct stat seen = sys::stat_of(fd, file), now {};
    Fd folder = store.directory("layers");
    if (::fstatat(folder.get(), file.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == seen.st_ino)
        remove_file(store, "layers", file);
}

}  // namespace berth::store
