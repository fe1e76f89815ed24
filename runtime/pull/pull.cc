#include "runtime/pull/pull.hh"

#include <algorithm>
#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/pull/layers.hh"
#include "runtime/pull/stored.hh"
#include "runtime/store/collect.hh"

namespace berth::pull {

namespace {

/// The documents from what a tag means down to the manifest of this machine's image.
struct Chain {
    std::vector<std::string> lists;  ///< digests of the indexes on the way
    image::Document document;
    image::Manifest manifest;
};

class Pull {
  public:
    Pull(const store::Store& store, const plan::Reference& reference, const Options& options, const Progress& progress)
        : store_(store),
          reference_(reference),
          policy_(options.policy),
          downloads_(options.downloads),
          progress_(progress),
          what_(cat("image ", printable(reference.text(), 1024))),
          registry_(reference, with_stop(options.registry)) {}

    std::string run();
    /// True when run() has brought something.
    bool has_fetched() const { return fetched_; }

  private:
    image::RegistryOptions with_stop(image::RegistryOptions options) {
        if (options.stop == nullptr) options.stop = &stop_;
        return options;
    }
    std::optional<std::string> without_asking() const;
    std::string resolve();
    std::string ask();
    std::string fall_back(const image::Unreachable& problem) const;
    Fd wait_for_turn(const std::string& digest) const;
    void fetch(const std::string& digest);
    Chain find_manifest(const std::string& digest);
    void fetch_image(const Chain& chain);
    void remember_tag(const std::string& digest) const;

    const store::Store& store_;
    const plan::Reference& reference_;
    Policy policy_;
    unsigned downloads_;
    const Progress& progress_;
    std::string what_;
    std::atomic<bool> stop_ = false;
    bool fetched_ = false;
    std::string etag_;
    image::Registry registry_;
};

std::string Pull::run() {
    if (auto stored = without_asking()) return *stored;
    std::string digest = resolve();
    if (!is_complete(store_, digest)) {
        Fd turn = wait_for_turn(digest);
        if (!is_complete(store_, digest)) fetch(digest);
    }
    remember_tag(digest);
    return digest;
}

/// What the policy lets run without a request.
std::optional<std::string> Pull::without_asking() const {
    bool may_ask = policy_ == Policy::always || (policy_ == Policy::newer && reference_.digest.empty());
    if (may_ask) return std::nullopt;
    auto digest = store_.digest_of(reference_);
    if (digest && is_complete(store_, *digest)) return digest;
    if (policy_ == Policy::never) throw Error(cat(what_, ": not in the store ", store_.path(), ", and the pull policy is never; pull it first"));
    return std::nullopt;
}

std::string Pull::resolve() {
    try {
        return ask();
    } catch (const image::Unreachable& problem) {
        if (policy_ != Policy::newer) throw;
        return fall_back(problem);
    }
}

std::string Pull::ask() {
    std::string asked = reference_.digest.empty() ? reference_.tag : reference_.digest;
    // A digest says all that a HEAD would; `always` wants to know whether the registry still has it.
    if (!reference_.digest.empty() && policy_ != Policy::always) return asked;
    if (auto answer = registry_.head_manifest(asked)) {
        if (!reference_.digest.empty() && answer->digest != reference_.digest)
            throw Error(cat(what_, ": the registry answers with ", answer->digest, " instead; refused"));
        etag_ = answer->etag;
        return answer->digest;
    }
    image::Document document = registry_.get_manifest(asked);
    etag_ = document.etag;
    return document.digest;
}

/// A registry that is down must not stop jobs whose image is here.
std::string Pull::fall_back(const image::Unreachable& problem) const {
    auto digest = store_.digest_of(reference_);
    if (!digest || !is_complete(store_, *digest)) throw problem;
    progress_(cat("warning: ", problem.what(), "; using the image of the last pull, ", *digest));
    return *digest;
}

Fd Pull::wait_for_turn(const std::string& digest) const {
    if (Fd mine = store_.try_lock(digest)) return mine;
    progress_(cat("waiting for ", store_.lock_owner(digest), ", which is pulling ", what_));
    return store_.lock(digest);
}

Chain Pull::find_manifest(const std::string& digest) {
    Chain out;
    image::Descriptor next{"", digest, 0, std::nullopt};
    for (unsigned depth = 0;; ++depth) {
        out.document = registry_.get_manifest(next.digest);
        if (depth > 0 && out.document.bytes.size() != next.size)
            throw Error(cat(what_, ": the manifest ", next.digest, " has ", out.document.bytes.size(), " bytes instead of ", next.size, "; refused"));
        auto document = image::parse_manifest(out.document.bytes, out.document.content_type, what_);
        // What the index calls it has to agree as well as what the registry does.
        if (!next.media_type.empty()) image::parse_manifest(out.document.bytes, next.media_type, what_);
        if (auto* manifest = std::get_if<image::Manifest>(&document)) {
            out.manifest = std::move(*manifest);
            return out;
        }
        if (depth == image::nesting_limit) throw Error(cat(what_, ": more than ", image::nesting_limit, " image indexes inside one another; refused"));
        out.lists.push_back(next.digest);
        next = image::choose_platform(std::get<image::ManifestList>(document), image::this_machine(), what_);
    }
}

void Pull::fetch(const std::string& digest) {
    fetched_ = true;
    progress_(cat("pulling ", what_));
    Chain chain = find_manifest(digest);
    // Another index, or a tag of the bare manifest, may have brought it already.
    if (!is_complete(store_, chain.document.digest)) fetch_image(chain);
    for (const std::string& list : chain.lists) store_.put_list(list, chain.document.digest);
}

void Pull::fetch_image(const Chain& chain) {
    std::string config = registry_.get_blob(chain.manifest.config);
    image::ImageDescription image = image::parse_config(config, chain.manifest.layers.size(), what_);
    std::vector<MissingLayer> missing;
    for (size_t i = 0; i < image.diff_ids.size(); ++i) {
        const std::string& diff_id = image.diff_ids[i];
        bool known = std::any_of(missing.begin(), missing.end(), [&](const MissingLayer& layer) { return layer.diff_id == diff_id; });
        if (store_.open_layer(diff_id))
            store_.touch_layer(diff_id);
        else if (!known)
            missing.push_back({chain.manifest.layers[i], diff_id});
    }
    fetch_layers(store_, registry_, missing, downloads_, stop_, what_, progress_);
    progress_(cat("merging the ", image.diff_ids.size(), " layers of ", what_));
    store_.publish_image(chain.document.digest, {chain.document.bytes, config, make_index(store_, image, what_)});
}

void Pull::remember_tag(const std::string& digest) const {
    if (!reference_.digest.empty()) return;
    auto known = store_.find_tag(reference_);
    // A warm start that changes nothing writes nothing.
    if (known && known->digest == digest) return;
    store_.put_tag(reference_, {digest, static_cast<int64_t>(::time(nullptr)), etag_});
}

}  // namespace

Policy parse_policy(const std::string& text) {
    if (text == "newer") return Policy::newer;
    if (text == "missing") return Policy::missing;
    if (text == "always") return Policy::always;
    if (text == "never") return Policy::never;
    throw Error(cat("pull policy \"", printable(text), "\": not one of newer, missing, always, never"));
}

std::string pull(const store::Store& store, const plan::Reference& reference, const Options& options, const Progress& progress) {
    if (reference.kind != plan::Reference::Kind::registry) throw Error(cat("image ", printable(reference.text()), ": a file, which needs no pull"));
    store.sweep();
    Fd no_removals = store.hold_off_removals();
    Pull pull(store, reference, options, progress);
    std::string digest = pull.run();
    no_removals.reset();
    // Another pull that goes on does it at its end.
    if (pull.has_fetched() && (options.keep.bytes > 0 || options.keep.age > 0)) store::collect(store, options.keep, false, false);
    return digest;
}

}  // namespace berth::pull
