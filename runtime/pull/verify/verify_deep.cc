#include "runtime/pull/verify/verify_deep.hh"

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/squash/write/layer_check.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/inventory.hh"

namespace berth::pull {

namespace {

class DeepVerifier {
  public:
    DeepVerifier(const store::Store& store, const OptionsFor& options, Meter& meter, Verified& out)
        : store_(store), options_for_(options), meter_(meter), out_(out) {}

    void check(const store::StoredImage& image);

  private:
    /// An image, and where its layers can be had once more.
    struct Origin {
        std::string what;
        plan::Reference reference;
        oci::Manifest manifest;
        oci::ImageDescription description;
        std::unique_ptr<oci::Source> source;
        std::optional<Published> published;
    };

    Origin origin_of(const store::StoredImage& image) const;
    bool check_layer(const Origin& origin, size_t index);
    void prove(const Origin& origin, size_t index, int file, const std::string& what);

    const store::Store& store_;
    const OptionsFor& options_for_;
    Meter& meter_;
    Verified& out_;
    std::set<std::string> proved_;  ///< diff_ids
};

/// Throws Error where nobody can be asked.
DeepVerifier::Origin DeepVerifier::origin_of(const store::StoredImage& image) const {
    std::string what = cat("image ", image.digest);
    if (image.tags.empty()) throw Error(cat(what, ": no tag says where it came from"));
    plan::Reference reference = image.tags.front().reference;
    if (reference.kind != plan::Reference::Kind::registry || !image.tags.front().source.empty())
        throw Error(cat(what, ": it came from ", printable(image.tags.front().text(), 1024), ", which is no registry"));
    what = cat("image ", printable(reference.text(), 1024));
    reference.tag.clear();
    reference.digest = image.digest;
    Options options = options_for_(reference);
    auto parsed = oci::parse_manifest(store_.read_document(image.digest, "manifest.json"), "", what);
    return {what,
            reference,
            std::get<oci::Manifest>(std::move(parsed)),
            describe(store_, image.digest, what),
            oci::make_registry_source(reference, options.registry),
            find_published(store_, reference, image.digest, options, meter_)};
}

void DeepVerifier::check(const store::StoredImage& image) try {
    store::Lease lease = store_.lease(image.digest);
    Origin origin = origin_of(image);
    bool whole = true;
    for (size_t i = 0; i < origin.description.diff_ids.size(); ++i) try {
            whole = check_layer(origin, i) && whole;
        } catch (const SysError&) {
            throw;
        } catch (const Error& problem) {
            out_.unchecked.push_back(problem.what());
        }
    if (!whole) out_.incomplete.push_back(origin.reference);
} catch (const SysError&) {
    throw;
} catch (const Error& problem) {
    out_.unchecked.push_back(cat("layers not proved: ", problem.what()));
}

/// False when the layer was something else, and is gone. Throws Error when that cannot be known.
bool DeepVerifier::check_layer(const Origin& origin, size_t index) {
    const Digest& diff_id = origin.description.diff_ids[index];
    store::Store::Layer layer = store_.find_layer(diff_id);
    // A store of the site's is its owner's to verify.
    if (!layer.file || layer.shared || proved_.contains(diff_id.hex())) return true;
    std::string what = cat("layer ", index + 1, " of ", origin.description.diff_ids.size(), " of ", origin.what);
    try {
        prove(origin, index, layer.file.get(), what);
        store_.clear_unproved(diff_id);
        proved_.insert(diff_id.hex());
        ++out_.proved;
        return true;
    } catch (const squash::LayerDiffers& problem) {
        out_.problems.push_back(cat(what, ": not what the image has: ", problem.what(), "; removed",
                                    origin_clause(out_.origins, diff_id)));
        store::discard_layer(store_, store_.layer_file(diff_id), layer.file.get());
        return false;
    }
}

void DeepVerifier::prove(const Origin& origin, size_t index, int file, const std::string& what) {
    const Digest& diff_id = origin.description.diff_ids[index];
    const oci::PublishedLayer* published = origin.published ? origin.published->artifact.find(diff_id) : nullptr;
    if (published != nullptr) {
        meter_.begin(Phase::verifying, cat("proving ", what));
        return prove_published(*origin.published->source, *published, file, what, [] {});
    }
    const oci::Descriptor& blob = origin.manifest.layers[index];
    meter_.begin(Phase::verifying, cat("proving ", what), blob.size);
    prove_by_blob(*origin.source, blob, diff_id, file, what, [&](uint64_t bytes) { meter_.advance(bytes); });
}

/// What the list names, or all.
std::vector<const store::StoredImage*> chosen(const store::Inventory& inventory, const std::vector<std::string>& names,
                                              const store::Store& store) {
    std::vector<const store::StoredImage*> out;
    for (const std::string& name : names) {
        out.push_back(inventory.find(name));
        if (out.back() == nullptr)
            throw Error(cat("verifying image ", printable(name, 1024), ": not in the store ",
                            printable(store.path(), 4096), "; pull it first"));
    }
    if (names.empty())
        for (const store::StoredImage& image : inventory.images) out.push_back(&image);
    return out;
}

}  // namespace

void verify_deep(const store::Store& store, const std::vector<std::string>& images, const OptionsFor& options,
                 Meter& meter, Verified& out) {
    store::Inventory inventory = store::take_inventory(store);
    DeepVerifier verifier(store, options, meter, out);
    for (const store::StoredImage* image : chosen(inventory, images, store)) verifier.check(*image);
}

}  // namespace berth::pull
