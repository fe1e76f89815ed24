#include "runtime/pull/verify/verify.hh"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/inventory.hh"

namespace berth::pull {

namespace {

constexpr size_t index_limit = size_t{4} << 30;

class Verifier {
  public:
    Verifier(const store::Store& store, Meter& meter) : store_(store), meter_(meter) {}
    Verified run();

  private:
    uint64_t size_of(const store::StoredLayer& layer) const;
    std::string origin_of(const store::StoredLayer& layer) const;
    void check_layer(const store::StoredLayer& layer);
    void check_image(const store::StoredImage& image);
    void list_origins(const Digest& digest, const oci::ImageDescription& description);
    std::string own_document(const Digest& digest, const std::string& file) const;
    oci::ImageDescription check_documents(const Digest& digest) const;
    void check_index(const Digest& digest, const oci::ImageDescription& description);
    void check_tag(const store::StoredTag& tag);
    void add_incomplete(const Digest& digest, plan::Reference reference);
    void add_incomplete(const store::StoredImage& image) {
        add_incomplete(image.digest, image.tags.empty() ? plan::Reference() : source_of(image.tags.front()));
    }
    static plan::Reference source_of(const store::StoredTag& tag) {
        return tag.source.empty() ? tag.reference : plan::parse_reference(tag.source);
    }
    void problem(const std::string& line) { out_.problems.push_back(line); }

    const store::Store& store_;
    Meter& meter_;
    Verified out_;
    std::set<std::string> newer_;  ///< layer files that a newer release has sealed
};

Verified Verifier::run() {
    std::string place = cat("the store ", printable(store_.path(), 4096));
    meter_.begin(Phase::opening, cat("waiting until nothing is being removed from ", place));
    store_.sweep();
    Lock no_removals = store_.hold_off_removals();
    store::Inventory inventory = store::take_inventory(store_);
    out_.origins = origins_of(store_, inventory);
    uint64_t total = 0;
    for (const store::StoredLayer& layer : inventory.layers) total += size_of(layer);
    meter_.begin(Phase::verifying, cat("verifying the layers of ", place), total);
    for (const store::StoredLayer& layer : inventory.layers) check_layer(layer);
    meter_.begin(Phase::verifying, cat("verifying the images of ", place));
    for (const store::StoredImage& image : inventory.images) check_image(image);
    for (const store::StoredTag& tag : inventory.stray_tags)
        if (!tag.is_record()) check_tag(tag);
    return std::move(out_);
}

/// 0 for one that has gone or cannot be read, which its check tells.
uint64_t Verifier::size_of(const store::StoredLayer& layer) const {
    struct stat st {};
    bool known = ::fstatat(store_.directory("layers").get(), layer.file.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    return known ? static_cast<uint64_t>(st.st_size) : 0;
}

std::string Verifier::origin_of(const store::StoredLayer& layer) const {
    for (const auto& [diff_id, origin] : out_.origins)
        if (store_.layer_file(diff_id) == layer.file) return origin_clause(out_.origins, diff_id);
    return "";
}

void Verifier::check_layer(const store::StoredLayer& layer) {
    std::string what = cat("layer ", printable(layer.file));
    ++out_.layers;
    Fd file = sys::open_if_exists(store_.directory("layers").get(), layer.file, O_RDONLY | O_NOFOLLOW);
    if (!file) return;
    try {
        Seal seal = seal_of(file.get(), what, [&](uint64_t bytes) { meter_.advance(bytes); });
        if (seal == Seal::newer) {
            --out_.layers;
            newer_.insert(layer.file);
            out_.unchecked.push_back(cat(what, ": not checked, a newer release of berth has sealed it"));
        }
        if (seal != Seal::broken) return;
        problem(cat(what, ": its bytes are not those that were stored; removed", origin_of(layer)));
    } catch (const SysError& error) {
        problem(cat(error.what(), "; removed", origin_of(layer)));
    }
    store::discard_layer(store_, layer.file, file.get());
}

void Verifier::check_image(const store::StoredImage& image) {
    ++out_.images;
    oci::ImageDescription description;
    try {
        description = check_documents(image.digest);
    } catch (const Error& error) {
        problem(cat(error.what(), "; removed"));
        store::discard_image(store_, image.digest);
        return add_incomplete(image);
    }
    if (std::any_of(description.diff_ids.begin(), description.diff_ids.end(),
                    [&](const Digest& diff_id) { return store_.is_unproved(diff_id); }))
        out_.unproved.push_back(image.digest);
    list_origins(image.digest, description);
    for (const Digest& diff_id : description.diff_ids)
        if (!store_.open_layer(diff_id)) {
            problem(cat("image ", image.digest, ": its layer ", diff_id, " is not in the store"));
            return add_incomplete(image);
        }
    // The newer release has made the index with what it knows of their blocks.
    if (std::any_of(description.diff_ids.begin(), description.diff_ids.end(),
                    [&](const Digest& diff_id) { return newer_.contains(store_.layer_file(diff_id)); }))
        return;
    check_index(image.digest, description);
}

void Verifier::list_origins(const Digest& digest, const oci::ImageDescription& description) {
    std::map<std::string, size_t> layers;
    std::set<Digest> all(description.diff_ids.begin(), description.diff_ids.end());
    for (const Digest& diff_id : all)
        if (auto origin = out_.origins.find(diff_id); origin != out_.origins.end()) ++layers[origin->second];
    for (const auto& [origin, count] : layers)
        out_.from_elsewhere.push_back(cat("image ", digest, ": ", count, " of ", all.size(), " layers from ", origin));
}

std::string Verifier::own_document(const Digest& digest, const std::string& file) const {
    Fd found = store_.own().find_document(digest, file);
    if (!found) throw SysError(cat("opening ", file, " of the image ", digest), ENOENT);
    return sys::read_all(found.get(), store::document_limit, cat(file, " of the image ", digest));
}

/// Throws Error when the documents are not those that their digests say.
oci::ImageDescription Verifier::check_documents(const Digest& digest) const {
    std::string what = cat("image ", digest);
    std::string manifest = own_document(digest, "manifest.json");
    if (oci::sha256_of(manifest) != digest) throw Error(cat(what, ": its manifest is damaged"));
    auto parsed = oci::parse_manifest(manifest, "", what);
    auto* single = std::get_if<oci::Manifest>(&parsed);
    if (single == nullptr) throw Error(cat(what, ": its manifest is an image index"));
    std::string config = own_document(digest, "config.json");
    if (oci::sha256_of(config) != single->config.digest) throw Error(cat(what, ": its config is damaged"));
    return oci::parse_config(config, single->layers.size(), what);
}

void Verifier::check_index(const Digest& digest, const oci::ImageDescription& description) {
    std::string right = make_index(store_, description, cat("image ", digest));
    try {
        if (sys::read_all(store_.open_index(digest).get(), index_limit, "an index") == right) return;
    } catch (const Error&) {
        // Missing or unreadable is as good as wrong.
    }
    problem(cat("image ", digest, ": its index was damaged, or of another version; made anew"));
    store_.replace_index(digest, right);
}

/// Removals take names away first, so that this is what an earlier discovery of damage left.
void Verifier::check_tag(const store::StoredTag& tag) {
    problem(cat("tag ", printable(tag.text(), 1024), ": its image ", tag.digest, " is not in the store"));
    add_incomplete(tag.digest, source_of(tag));
}

void Verifier::add_incomplete(const Digest& digest, plan::Reference reference) {
    reference.tag.clear();
    reference.digest = digest;
    out_.incomplete.push_back(std::move(reference));
}

}  // namespace

Verified verify(const store::Store& store, Meter& meter) { return Verifier(store, meter).run(); }

}  // namespace berth::pull
