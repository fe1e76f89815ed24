#include "runtime/pull/lazy/early.hh"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/limits.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/layers/meeting.hh"
#include "runtime/pull/lazy/chunk_fetch.hh"
#include "runtime/pull/lazy/early_parts.hh"
#include "runtime/store/partial.hh"
#include "runtime/store/profile.hh"

namespace berth::pull {

namespace {

// Beside what runtime/store/partial.hh has in an image's folder.
constexpr const char* artifact_file = "artifact.json";
constexpr const char* sums_file = "sums";
constexpr uint64_t early_index_limit = 4ULL << 30;  ///< bytes, unpacked
constexpr size_t sums_limit = ChunkMap::chunk_limit * ChunkSums::size;
constexpr size_t profile_limit = ChunkMap::chunk_limit * 4;

class Preparation {
  public:
    Preparation(const store::Store& store, Published& published, const Digest& manifest, Meter& meter)
        : store_(store), published_(published), artifact_(published.artifact), manifest_(manifest), meter_(meter),
          what_(cat("published layers of image ", printable(published.place.text(), 1024))) {}

    /// Throws Error with the reason why a start has to wait for the layers.
    void run(const std::vector<Digest>& diff_ids, bool with_profile);

  private:
    void check_artifact(const std::vector<Digest>& diff_ids) const;
    squash::Index fetch_index(int fd);
    uint32_t add_layers(const store::NewPartial& folder, const std::vector<Digest>& layers, const ChunkSums& sums);
    std::string blob(const oci::Descriptor& blob, size_t limit);
    void add_profile(const store::NewPartial& folder);
    void put(const store::NewPartial& folder, const char* file, std::string_view bytes) const {
        sys::write_all(folder.add(file).get(), bytes, cat(file, " of ", what_));
    }

    const store::Store& store_;
    Published& published_;
    const oci::Artifact& artifact_;
    const Digest& manifest_;
    Meter& meter_;
    std::string what_;
    std::vector<ChunkMap::Chunks> here_;
};

void Preparation::check_artifact(const std::vector<Digest>& diff_ids) const {
    if (!artifact_.index || !artifact_.sums) throw Error(cat(what_, ": they were published without their index"));
    for (const Digest& diff_id : diff_ids)
        if (artifact_.find(diff_id) == nullptr) throw Error(cat(what_, ": the layer ", diff_id, " is not among them"));
}

std::string Preparation::blob(const oci::Descriptor& blob, size_t limit) {
    if (blob.size > limit)
        throw Error(cat(what_, ": ", blob.media_type, " of ", human_bytes(blob.size), ", more than ",
                        human_bytes(limit)));
    return published_.source->blob(blob);
}

/// By a range, so that a registry that sends no parts of blobs shows now.
squash::Index Preparation::fetch_index(int fd) {
    const oci::Descriptor& wanted = *artifact_.index;
    oci::Sha256 hash;
    uint64_t size = 0;
    auto unpacker = oci::make_zstd_decompressor([&](std::string_view bytes) {
        size += bytes.size();
        if (size > early_index_limit)
            throw Error(cat(what_, ": their index has more than ", human_bytes(early_index_limit)));
        sys::write_all(fd, bytes, cat("the index of ", what_));
    });
    published_.source->read_range(wanted, 0, wanted.size, [&](std::string_view bytes) {
        hash.update(bytes);
        unpacker->feed(bytes);
    });
    if (Digest is = hash.finish(); is != wanted.digest)
        throw Error(cat(what_, ": their index has the digest ", is, " instead of ", wanted.digest));
    unpacker->finish();
    return squash::Index::open(fd, cat("the index of ", what_));
}

/// Those that are in a store already have to be what was published: the index is of that. Their last chunk tells, since
/// it has the seal. Returns how many chunks there are.
uint32_t Preparation::add_layers(const store::NewPartial& folder, const std::vector<Digest>& layers,
                                 const ChunkSums& sums) {
    uint32_t first = 0;
    uint64_t to_come = 0;
    for (const Digest& diff_id : layers) {
        const oci::PublishedLayer* published = artifact_.find(diff_id);
        uint64_t size = published->squashfs.size;
        auto count = static_cast<uint32_t>(ChunkMap::chunks_of(size));
        if (Fd stored = store_.open_layer(diff_id)) {
            uint64_t at = uint64_t{count - 1} * ChunkMap::chunk_size;
            std::string last(size - at, '\0');
            bool same = static_cast<uint64_t>(sys::stat_of(stored.get(), diff_id.text()).st_size) == size &&
                        sys::pread_exact(stored.get(), last, at, diff_id.text()) && sums.match(first + count - 1, last);
            if (!same) throw Error(cat(what_, ": the store has another conversion of the layer ", diff_id));
            here_.push_back({first, count});
        } else {
            check_room(folder.folder(), to_come += size, what_);
            folder.add_layer(diff_id, size);
        }
        first += count;
    }
    return first;
}

/// Only an order: without it everything comes as well.
void Preparation::add_profile(const store::NewPartial& folder) try {
    if (artifact_.profile) put(folder, store::profile_file, blob(*artifact_.profile, profile_limit));
} catch (const SysError&) {
    throw;
} catch (const Error& problem) {
    meter_.note(problem.what());
}

void Preparation::run(const std::vector<Digest>& diff_ids, bool with_profile) {
    check_artifact(diff_ids);
    meter_.begin(Phase::reading, cat("reading the index of ", what_), artifact_.index->size);
    store::NewPartial folder(store_, manifest_);
    Fd index_file = folder.add("index");
    squash::Index index = fetch_index(index_file.get());
    std::vector<Digest> layers = store::layers_of(index, what_), of_image = diff_ids;
    std::ranges::sort(of_image);
    of_image.erase(std::unique(of_image.begin(), of_image.end()), of_image.end());
    if (std::vector<Digest> sorted = layers; std::ranges::sort(sorted), sorted != of_image)
        throw Error(cat(what_, ": their index is of other layers"));
    uint64_t chunks = 0;
    for (const Digest& diff_id : layers) {
        uint64_t size = artifact_.find(diff_id)->squashfs.size;
        if (size == 0) throw Error(cat(what_, ": the layer ", diff_id, " is empty"));
        chunks += std::min(ChunkMap::chunks_of(size), ChunkMap::chunk_limit);
    }
    if (chunks > ChunkMap::chunk_limit) throw Error(cat(what_, ": they are too large"));
    std::string sums = blob(*artifact_.sums, sums_limit);
    ChunkSums checked(sums, chunks, what_);
    uint32_t count = add_layers(folder, layers, checked);
    put(folder, sums_file, sums);
    put(folder, artifact_file, oci::make_artifact(artifact_));
    if (with_profile) add_profile(folder);
    folder.publish(count, here_);
}

/// The layers that have come are the store's from now on, but for those that somebody else has brought meanwhile, and
/// those that nobody could read with their seal: these are converted.
void keep_layers(const store::Store& store, const Digest& manifest, const store::Partial& partial,
                    const std::string& what, Meter& meter) {
    for (const store::PartialLayer& layer : partial.layers) {
        if (!layer.is_coming) continue;
        Lock turn = store.lock(layer.diff_id);
        if (has_own_layer(store, layer.diff_id)) continue;
        try {
            check_published(layer.file.get(), cat(what, ", layer ", layer.diff_id));
        } catch (const SysError&) {
            throw;
        } catch (const Error& problem) {
            meter.note_refused(problem.what());
            continue;
        }
        store.mark_unproved(layer.diff_id);
        if (!store::publish_partial_layer(store, manifest, layer)) store.clear_unproved(layer.diff_id);
    }
}

/// Only an order: without it everything comes as well.
std::vector<uint32_t> find_profile(const store::Store& store, const Digest& manifest, oci::Source& source,
                                   const oci::Artifact& artifact, uint32_t chunks, Meter& meter) try {
    if (auto here = store::read_partial(store, manifest, store::profile_file, profile_limit))
        return store::parse_profile(*here, chunks);
    if (!artifact.profile || artifact.profile->size > profile_limit) return {};
    return store::parse_profile(source.blob(*artifact.profile), chunks);
} catch (const Error& problem) {
    meter.note(problem.what());
    return {};
}

/// Also of those that somebody has published who was killed before the image was there.
std::vector<Digest> unproved_layers(const store::Store& store, const store::Partial& partial) {
    std::vector<Digest> out;
    for (const store::PartialLayer& layer : partial.layers)
        if (store.is_unproved(layer.diff_id)) out.push_back(layer.diff_id);
    return out;
}

}  // namespace

bool prepare_early(const store::Store& store, Published& published, const Digest& manifest,
                   const std::vector<Digest>& diff_ids, bool with_profile, Meter& meter) try {
    if (!published.is_trusted) return false;
    Preparation(store, published, manifest, meter).run(diff_ids, with_profile);
    return true;
} catch (const SysError&) {
    throw;
} catch (const Error& problem) {
    meter.note(cat("the start waits for the layers: ", problem.what()));
    return false;
}

void read_early_parts(Published& published) {
    const oci::Artifact& artifact = published.artifact;
    if (!published.is_trusted || !artifact.index || !artifact.sums) return;
    for (const auto& part : {artifact.sums, artifact.profile})
        if (part) published.source->blob(*part);
    published.source->read_range(*artifact.index, 0, artifact.index->size, [](std::string_view) {});
}

Completed complete_early(const store::Store& store, const plan::Reference& image, const Digest& manifest,
                         const Options& options, Meter& meter) {
    std::string what = cat("image ", printable(image.text(), 1024));
    // Of a name that no image and no layer has: pulls of these wait for one another elsewhere.
    Lock turn = store.lock(oci::sha256_of(cat("partial ", manifest)));
    auto found = store::find_partial(store, manifest, store::Access::write);
    auto document = store::read_partial(store, manifest, artifact_file, oci::document_limit);
    auto sums = store::read_partial(store, manifest, sums_file, sums_limit);
    auto place = artifact_repository(options.artifacts, image);
    if (!found || !document || !sums || !place) return {};
    auto partial = std::make_shared<const store::Partial>(std::move(*found));
    place->tag = oci::artifact_tag(manifest);
    place->digest.reset();
    oci::Artifact artifact = oci::parse_artifact(*document, what);
    auto source = oci::make_registry_source(*place, options_there(options, *place).registry);
    std::vector<uint32_t> profile =
        find_profile(store, manifest, *source, artifact, partial->map->count(), meter);
    Completed out;
    out.exchange = meet_for_chunks(options, partial, manifest, profile, what, meter);
    std::vector<LayerStatus> shown;
    for (const store::PartialLayer& layer : partial->layers)
        shown.push_back({layer.diff_id.text(), layer.size - store::here_bytes(layer, *partial->map)});
    meter.begin_layers(cat("pulling ", what), shown);
    fetch_chunks(*partial, artifact, ChunkSums(*sums, partial->map->count(), what), profile, *source,
                 {.what = what,
                  .patience = options.stall_time,
                  .rate = options.fetch_rate,
                  .stop = options.registry.stop,
                  .taken = [&](size_t layer, uint64_t bytes) { meter.advance_layer(layer, bytes); },
                  .waited = [&](uint64_t bytes) { meter.note_waited(bytes); },
                  .from_nodes = [&](uint64_t bytes) { meter.add_from_peers(bytes); },
                  .exchange = out.exchange.get()});
    for (size_t i = 0; i < partial->layers.size(); ++i) meter.note_published(i);
    keep_layers(store, manifest, *partial, what, meter);
    auto again = oci::make_registry_source(*place, options.artifacts.registry(*place));
    out.unproved = Unproved{what, std::move(artifact), std::move(again), unproved_layers(store, *partial)};
    for (const store::PartialLayer& layer : partial->layers) {
        out.layers.push_back(layer.diff_id);
        out.origins.emplace(layer.diff_id, origin_of(*place));
    }
    return out;
}

void prove_together(const store::Store& store, Completed& completed, const std::function<void(Unproved&)>& prove) {
    nodes::LazyExchange* exchange = completed.exchange.get();
    if (!completed.unproved) return;
    Unproved& unproved = *completed.unproved;
    if (exchange == nullptr) return prove(unproved);
    auto number_of = [&](const Digest& layer) {
        return static_cast<unsigned>(std::ranges::find(completed.layers, layer) - completed.layers.begin());
    };
    std::vector<Digest> rest = std::exchange(unproved.layers, {}), own;
    std::erase_if(rest, [&](const Digest& layer) {
        bool is_own = exchange->is_to_prove(number_of(layer));
        if (is_own) own.push_back(layer);
        return is_own;
    });
    unproved.layers = own;
    prove(unproved);
    for (const Digest& layer : own)
        if (!store.is_unproved(layer)) exchange->tell_proved(number_of(layer));
    exchange->serve_to_the_end();
    std::erase_if(rest, [&](const Digest& layer) {
        bool is_proved = exchange->is_proved(number_of(layer));
        if (is_proved) store.clear_unproved(layer);
        return is_proved;
    });
    unproved.layers = rest;
    prove(unproved);
}

}  // namespace berth::pull
