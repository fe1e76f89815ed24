#include "runtime/pull/transfer/pull.hh"

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/base/debug_log.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/admission.hh"
#include "runtime/pull/image/chain.hh"
#include "runtime/pull/image/documents.hh"
#include "runtime/pull/image/open_source.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/layers/fetch.hh"
#include "runtime/pull/layers/meeting.hh"
#include "runtime/pull/layers/published.hh"
#include "runtime/pull/lazy/early.hh"
#include "runtime/pull/nodes/peer/member.hh"
#include "runtime/pull/progress/display.hh"
#include "runtime/store/collect.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/turn.hh"
#include "runtime/telemetry/event_cause.hh"
#include "runtime/trust/remembered.hh"

namespace berth::pull {

namespace {

/// For the answer to a request that was asked to come later.
constexpr auto after_retry = std::chrono::seconds(20);

class Pull {
  public:
    Pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter)
        : store_(store),
          reference_(reference),
          options_(options),
          meter_(meter),
          what_(cat("image ", printable(reference.text(), 1024))),
          record_(record_of(reference, options, meter)),
          admission_(store, reference, options_, meter) {
        prepare_options();
    }

    Digest run();
    /// What the image's name means now, by the policy.
    Digest digest();
    /// True when run() has brought something.
    bool has_fetched() const { return fetched_; }
    Afterwards take_afterwards() {
        Afterwards out{std::move(nodes_), std::move(unproved_), early_};
        // Its chunks come with the nodes in a conversation of their own.
        if (early_) {
            if (out.member->has_met()) out.place = options_.share;
            out.member.reset();
            out.documents = documents_of_image();
        }
        out.admitted = admission_.admitted();
        return out;
    }

  private:
    nodes::DocumentList documents_of_image() const;
    /// One node tells the others of the step what it has asked the registry for.
    bool tells_others() const { return nodes_->has_met() && !known_; }
    bool is_local() const { return reference_.kind != plan::Reference::Kind::registry; }
    void prepare_options();
    nodes::RememberingSource& source();
    void learn(const nodes::DocumentList& documents);
    std::optional<Digest> without_asking() const;
    Digest resolve();
    Digest ask();
    Digest run_for_other_machine();
    void check_architecture(const plan::ImageConfig& config) const;
    Digest fall_back(const oci::Unreachable& problem) const;
    store::Turn wait_for_turn(const Digest& digest) const;
    bool may_start_early() const;
    bool start_early(const Digest& digest);
    bool prepare_start();
    void find_published_layers();
    void fetch(const Digest& digest);
    Chain fetch_documents(const Digest& digest);
    void begin_sharing(const Digest& digest);
    void telling_documents(const std::function<void()>& work);
    void share_layers(const oci::ImageDescription& image, const oci::Manifest& manifest);
    Chain find_manifest(const Digest& digest);
    void admit_stored(const Digest& digest);
    void fetch_image(const Chain& chain);
    bool brings_any(const std::vector<MissingLayer>& missing) const;
    void remember_tag(const Digest& digest) const;

    const store::Store& store_;
    const plan::Reference& reference_;
    Options options_;
    Meter& meter_;
    std::string what_;
    std::atomic<bool> stop_ = false;
    bool fetched_ = false;
    std::string etag_;
    plan::Reference record_;  ///< what the store remembers the answer under
    std::unique_ptr<nodes::RememberingSource> source_;
    std::unique_ptr<nodes::Member> nodes_ = std::make_unique<nodes::Member>();  ///< the step's other nodes
    std::optional<nodes::DocumentList> known_;  ///< what one of them has told; nothing: this one is to
    std::optional<Unproved> unproved_;
    std::optional<Digest> early_;         ///< the manifest of an image that starts before it is here
    std::optional<Chain> chain_;          ///< what has been asked for already
    std::optional<Published> published_;
    bool is_published_known_ = false;     ///< `published_` says what there is, or that there is nothing
    Admission admission_;
};

void Pull::prepare_options() {
    oci::RegistryOptions& registry = options_.registry;
    if (registry.stop == nullptr) registry.stop = &stop_;
    registry.notice = [this](const std::string& line) {
        bool warns = line.starts_with("mirror ") || line.starts_with("logins ");
        warns ? meter_.warn(line) : meter_.note(line);
    };
    registry.retrying = [this](std::chrono::milliseconds delay, const std::string& reason) {
        meter_.retry(delay, reason);
        // The other nodes of the step wait for it as well.
        nodes_->be_at_work(delay + after_retry);
    };
    // With an image to fall back on, a start does not wait for a registry that is down.
    auto known = options_.policy == Policy::newer && !is_local() ? store_.digest_of(record_) : std::nullopt;
    if (known && store_.has_image(*known)) registry.head_retries = 0;
}

/// Opened only when something is asked of it: to open an archive can mean to unpack it.
nodes::RememberingSource& Pull::source() {
    if (source_) return *source_;
    source_ = std::make_unique<nodes::RememberingSource>(open_source(store_, reference_, record_, options_, meter_));
    learn(options_.known);
    return *source_;
}

void Pull::learn(const nodes::DocumentList& documents) {
    source_->learn(documents);
    admission_.offer(documents, nodes::signatures_type);
}

/// Of one that starts early.
nodes::DocumentList Pull::documents_of_image() const {
    if (!source_ || !chain_) return {};
    std::vector<Digest> wanted = chain_->indexes;
    wanted.insert(wanted.end(), {chain_->document.digest, chain_->manifest.config.digest});
    return documents_to_keep(*source_, wanted, admission_.signatures());
}

Digest Pull::run() {
    if (options_.machine) return run_for_other_machine();
    if (auto stored = without_asking()) {
        admit_stored(*stored);
        return *stored;
    }
    Digest digest = resolve();
    debug::log("pull", what_, " is ", digest, is_complete(store_, digest) ? ", which is in the store" : "");
    // An index that is damaged or of another version is made anew by this.
    meter_.begin(Phase::opening, cat("opening ", what_, " in the store"));
    if (!is_complete(store_, digest)) {
        if (start_early(digest)) return digest;
        store::Turn turn = wait_for_turn(digest);
        if (!is_complete(store_, digest)) fetch(digest);
    }
    admit_stored(digest);
    remember_tag(digest);
    return digest;
}

bool Pull::may_start_early() const {
    return options_.early && !is_local() && !store_.is_offered() &&
           !options_.signatures.policy.empty() &&
           // Processes of other nodes would not see which parts are here.
           store_.locks_are_certain();
}

/// True when the image can be started without its layers.
bool Pull::start_early(const Digest& digest) {
    if (!may_start_early()) return false;
    begin_sharing(digest);
    meter_.begin(Phase::asking, cat("asking ", reference_.registry, " for the manifest of ", what_));
    bool can_start = false;
    telling_documents([&] {
        chain_ = find_manifest(digest);
        admission_.check(chain_->document.digest, chain_->document.bytes);
        can_start = prepare_start();
    });
    if (!can_start) return false;
    early_ = chain_->document.digest;
    remember_tag(digest);
    return true;
}

/// One step of this node prepares, and the others find that.
bool Pull::prepare_start() {
    const Digest& manifest = chain_->document.digest;
    Lock turn = store_.lock(oci::sha256_of(cat("preparing ", manifest)));
    bool is_prepared = store::find_partial(store_, manifest, store::Access::read).has_value();
    if (is_prepared && !tells_others()) return true;
    check_size(chain_->manifest, options_.limits, what_);
    oci::ImageDescription image =
        oci::parse_config(source().blob(chain_->manifest.config), chain_->manifest.layers.size(), what_);
    find_published_layers();
    if (is_prepared && published_) read_early_parts(*published_);
    return is_prepared || (published_ && prepare_early(store_, *published_, manifest, image.diff_ids,
                                                       nodes_->has_met(), meter_));
}

/// With the step's other nodes, one of them asks for what describes these layers.
void Pull::find_published_layers() {
    const nodes::DocumentList* known = known_ ? &*known_ : nullptr;
    published_ = find_published(store_, reference_, chain_->document.digest, options_, meter_, known);
    is_published_known_ = true;
}

/// One that is here already, or has just come: it may have come before the policy, or under another name.
void Pull::admit_stored(const Digest& digest) {
    if (options_.signatures.policy.empty()) return;
    Digest manifest = store_.image_of(digest).value_or(digest);
    admission_.check(manifest, store_.read_document(manifest, "manifest.json"));
    admission_.remember(manifest);
    if (const auto& admitted = admission_.admitted()) meter_.set_signer(store::signers_text(*admitted), admitted->rule);
}

Digest Pull::run_for_other_machine() {
    if (options_.policy == Policy::never)
        throw Error(cat(what_, " for ", options_.machine->architecture,
                        ": the store knows images for this machine only by name, and the pull policy is never; use "
                        "another policy"));
    Chain chain = find_manifest(ask());
    const Digest& digest = chain.document.digest;
    if (!is_complete(store_, digest)) {
        store::Turn turn = wait_for_turn(digest);
        if (!is_complete(store_, digest)) {
            fetched_ = true;
            fetch_image(chain);
        }
    }
    check_architecture(describe(store_, digest, what_).config);
    admit_stored(digest);
    return digest;
}

/// Of a bare manifest its config alone says what it is for.
void Pull::check_architecture(const plan::ImageConfig& config) const {
    if (!options_.machine || config.architecture.empty() || config.architecture == options_.machine->architecture)
        return;
    throw Error(cat(what_, ": no image for linux/", options_.machine->architecture, " in it; it is for linux/",
                    printable(config.architecture, 64)));
}

Digest Pull::digest() {
    auto stored = without_asking();
    return stored ? *stored : resolve();
}

/// What the policy lets run without a request.
std::optional<Digest> Pull::without_asking() const {
    bool may_ask = options_.policy == Policy::always ||
                   (options_.policy == Policy::newer && !reference_.digest && !is_local());
    if (may_ask) return std::nullopt;
    auto digest = store_.digest_of(record_);
    if (digest && is_complete(store_, *digest)) return digest;
    if (options_.policy == Policy::never && !is_local())
        throw Error(cat(what_, ": not in the store ", store_.path(), ", and the pull policy is never; pull it first"));
    return std::nullopt;
}

Digest Pull::resolve() {
    try {
        return ask();
    } catch (const oci::Unreachable& problem) {
        if (options_.policy != Policy::newer) throw;
        return fall_back(problem);
    }
}

Digest Pull::ask() {
    const std::optional<Digest>& digest = record_.digest;
    // A digest says all that a HEAD would; `always` wants to know whether the registry still has it.
    if (digest && options_.policy != Policy::always) return *digest;
    if (!is_local()) meter_.begin(Phase::asking, cat("asking ", reference_.registry, " about ", what_));
    if (auto answer = source().resolve()) {
        if (digest && answer->digest != *digest)
            throw Error(cat(what_, ": the registry answers with ", answer->digest, " instead; refused"));
        etag_ = answer->etag;
        return answer->digest;
    }
    oci::Document document = source().manifest();
    etag_ = document.etag;
    return document.digest;
}

/// A registry that is down must not stop jobs whose image is here.
Digest Pull::fall_back(const oci::Unreachable& problem) const {
    auto digest = store_.digest_of(record_);
    if (!digest || !is_complete(store_, *digest)) throw problem;
    meter_.warn(cat(problem.what(), "; using the image of the last pull, ", *digest));
    return *digest;
}

store::Turn Pull::wait_for_turn(const Digest& digest) const {
    store::TurnQueue queue(store_, digest);
    if (store::Turn mine = queue.try_take()) return mine;
    meter_.begin(Phase::waiting, cat("waiting for ", queue.holder(), ", which is pulling ", what_));
    return queue.take();
}

Chain Pull::find_manifest(const Digest& digest) {
    return find_chain(source(), digest, options_.machine ? *options_.machine : oci::this_machine(), what_);
}

void Pull::fetch(const Digest& digest) {
    fetched_ = true;
    if (!is_local()) meter_.begin(Phase::asking, cat("asking ", reference_.registry, " for the manifest of ", what_));
    Chain chain = chain_ ? std::move(*std::exchange(chain_, {})) : fetch_documents(digest);
    // Another index, or a tag of the bare manifest, may have brought it already.
    if (!is_complete(store_, chain.document.digest)) fetch_image(chain);
    for (const Digest& index : chain.indexes) store_.put_image_index(index, chain.document.digest);
}

/// With the step's other nodes, one of them asks the registry for all.
Chain Pull::fetch_documents(const Digest& digest) {
    begin_sharing(digest);
    std::optional<Chain> out;
    telling_documents([&] {
        out = find_manifest(digest);
        if (!tells_others()) return;
        source().blob(out->manifest.config);
        admission_.check(out->document.digest, out->document.bytes);
    });
    return std::move(*out);
}

/// `work` brings the documents where this node is to tell them.
void Pull::telling_documents(const std::function<void()>& work) {
    if (!tells_others()) return work();
    try {
        work();
        nodes_->tell_documents(
            documents_to_tell(*source_, admission_.signatures(), published_ ? &*published_ : nullptr));
    } catch (const Error& problem) {
        nodes_->fail_documents(problem.what());
        throw;
    }
}

/// Not where this node is alone. Whatever is wrong with sharing, the image is pulled.
void Pull::begin_sharing(const Digest& digest) try {
    if (!options_.share || is_local() || options_.machine) return;
    meter_.begin(Phase::asking, cat("asking the other nodes of the step for ", what_));
    nodes_ = meet_others(options_, digest, what_, meter_);
    known_ = nodes_->documents();
    source();
    if (known_) learn(*known_);
} catch (const Error& problem) {
    meter_.note(cat(what_, " is not shared with the other nodes of the step: ", problem.what()));
    nodes_ = std::make_unique<nodes::Member>();
}

/// Layers that run on their publisher's signature so far are nothing to send: they could not be taken back.
void Pull::share_layers(const oci::ImageDescription& image, const oci::Manifest& manifest) {
    if (!nodes_->has_met()) return;
    std::vector<Digest> withheld = store_.unproved();
    std::erase_if(withheld, [&](const Digest& layer) {
        bool is_of_image = std::find(image.diff_ids.begin(), image.diff_ids.end(), layer) != image.diff_ids.end();
        return !is_of_image || !has_own_layer(store_, layer);
    });
    std::vector<nodes::SharedLayer> layers;
    for (size_t i = 0; i < image.diff_ids.size(); ++i) {
        bool known = std::any_of(layers.begin(), layers.end(), [&](const nodes::SharedLayer& layer) {
            return layer.diff_id == image.diff_ids[i];
        });
        if (known) continue;
        bool is_withheld = std::find(withheld.begin(), withheld.end(), image.diff_ids[i]) != withheld.end();
        layers.push_back({image.diff_ids[i], manifest.layers[i].size,
                          is_withheld ? Fd() : store_.open_layer(image.diff_ids[i])});
    }
    nodes_->join(std::move(layers));
    for (const Digest& layer : withheld) nodes_->leave_to_others(layer, "it has still to be proved here");
}

/// Whether any of the layers is not for other nodes to bring.
bool Pull::brings_any(const std::vector<MissingLayer>& missing) const {
    return std::any_of(missing.begin(), missing.end(), [&](const MissingLayer& layer) {
        return nodes_->role(layer.diff_id) != nodes::Member::Role::receive;
    });
}

void Pull::fetch_image(const Chain& chain) {
    check_size(chain.manifest, options_.limits, what_);
    admission_.check(chain.document.digest, chain.document.bytes);
    std::string config = source().blob(chain.manifest.config);
    oci::ImageDescription image = oci::parse_config(config, chain.manifest.layers.size(), what_);
    check_architecture(image.config);
    share_layers(image, chain.manifest);
    std::vector<MissingLayer> missing;
    for (size_t i = 0; i < image.diff_ids.size(); ++i) {
        const Digest& diff_id = image.diff_ids[i];
        bool known = std::any_of(missing.begin(), missing.end(),
                                 [&](const MissingLayer& layer) { return layer.diff_id == diff_id; });
        if (has_good_layer(store_, diff_id))
            store_.touch_layer(diff_id);
        else if (!known)
            missing.push_back({chain.manifest.layers[i], diff_id});
    }
    const Digest& manifest = chain.document.digest;
    if (brings_any(missing) && !is_published_known_)
        published_ = find_published(store_, reference_, manifest, options_, meter_);
    Fetched fetched = fetch_layers(store_, source(), missing, {options_.limits, stop_, what_}, meter_, *nodes_,
                                   published_ ? &*published_ : nullptr);
    meter_.begin(Phase::merging, cat("merging the ", image.diff_ids.size(), " layers of ", what_));
    store_.publish_image(manifest, {chain.document.bytes, config, make_index(store_, image, what_)});
    note_origins(store_, manifest, fetched.origins);
    if (fetched.unproved.empty()) return;
    // The source's options would lead to this object, which ends before.
    auto again = oci::make_registry_source(published_->place, options_.artifacts.registry(published_->place));
    unproved_ = Unproved{what_, std::move(published_->artifact), std::move(again), std::move(fetched.unproved)};
}

void Pull::remember_tag(const Digest& digest) const {
    if (record_.digest || !is_still_true(reference_, record_)) return;
    auto known = store_.find_tag(record_);
    auto now = static_cast<int64_t>(::time(nullptr));
    // An answer that changes nothing is written when the last one has become old, not at each start.
    bool is_old = !is_local() && options_.fresh_for > 0 && known && now - known->time >= options_.fresh_for;
    if (known && known->digest == digest && !is_old) return;
    store_.put_tag(record_, {digest, now, etag_, is_local() ? reference_.text() : ""});
}

}  // namespace

Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter,
            Afterwards& afterwards) {
    if (reference.kind == plan::Reference::Kind::path)
        throw Error(cat("image ", printable(reference.text()), ": a file, which needs no pull"));
    meter.begin(Phase::opening, cat("opening the store ", printable(store.path(), 4096)));
    store.sweep();
    meter.begin(Phase::opening,
                cat("waiting until nothing is being removed from the store ", printable(store.path(), 4096)));
    Lock no_removals = store.hold_off_removals();
    Pull pull(store, reference, options, meter);
    Digest digest = pull.run();
    afterwards = pull.take_afterwards();
    if (afterwards.early) {
        afterwards.no_removals = std::move(no_removals);
        return digest;
    }
    no_removals.unlock();
    // Another pull that goes on does it at its end.
    if (!pull.has_fetched() || (options.keep.bytes == 0 && options.keep.age == 0)) return digest;
    meter.begin(Phase::removing, cat("removing what the store ", printable(store.path(), 4096), " need not keep"));
    store::collect(store, options.keep, false, false);
    return digest;
}

Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter) {
    Afterwards none;
    return pull(store, reference, options, meter, none);
}

Completed finish_early(const store::Store& store, const plan::Reference& image, Options options,
                       const Afterwards& started, Meter& meter) {
    const Digest& manifest = *started.early;
    options.policy = Policy::missing;
    options.early = false;
    options.prove_later = true;
    options.known = started.documents;
    options.share = started.place;
    Completed out = complete_early(store, image, manifest, options, meter);
    options.share.reset();
    Afterwards rest;
    pull(store, image, options, meter, rest);
    note_origins(store, manifest, out.origins);
    store::remove_partial(store, manifest);
    if (!out.unproved) out.unproved = std::move(rest.unproved);
    return out;
}

Digest digest_now(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter) {
    return Pull(store, reference, options, meter).digest();
}

Digest pull(const store::Store& store, const plan::Reference& reference, const Options& options,
                 const Progress& progress) {
    Meter meter(reference.text());
    LineView lines(progress);
    Display display(meter, lines);
    return pull(store, reference, options, meter);
}

}  // namespace berth::pull
