#include "runtime/pull/publish/publish.hh"

#include <unistd.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/artifact.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/media_type.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/remainder/split.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/pull/image/stored.hh"
#include "runtime/pull/lazy/early_parts.hh"
#include "runtime/pull/publish/file_blob.hh"
#include "runtime/pull/transfer/pull.hh"
#include "runtime/store/profile.hh"

namespace berth::pull {

namespace {

std::string type_of(oci::MediaKind kind) { return std::string(oci::media_type(kind)); }

bool has_all(const oci::Artifact& artifact, const oci::ImageDescription& description) {
    return std::ranges::all_of(description.diff_ids,
                               [&](const Digest& diff_id) { return artifact.find(diff_id) != nullptr; });
}

class Publication {
  public:
    Publication(const store::Store& store, const plan::Reference& image, const Options& options,
                const plan::Reference& repository, Meter& meter)
        : store_(store),
          options_(options),
          meter_(meter),
          what_(cat("image ", printable(image.text(), 1024))),
          image_(cat(image.registry, "/", image.name)),
          source_(oci::make_registry_source(image, options.registry)),
          target_(repository, options.artifacts.registry(repository)),
          place_(cat(repository.registry, "/", repository.name)) {}

    PublishedImage run(const Digest& manifest, bool anew);

  private:
    bool is_there(const Digest& manifest, const oci::ImageDescription& description);
    void add_early_parts(oci::Artifact& artifact, const oci::ImageDescription& description);
    oci::Descriptor bring(const std::string& bytes, const char* type);
    void list(const Digest& manifest, const std::string& artifact);
    void add_layer(oci::Artifact& artifact, const oci::Descriptor& blob, const Digest& diff_id);
    oci::PublishedLayer publish_layer(const oci::Descriptor& blob, const Digest& diff_id);
    void split(const oci::Descriptor& blob, const Digest& diff_id, squash::LayerFiles& files, int remainder);
    void prove(int remainder, const Digest& diff_id, squash::LayerFiles& files);
    void bring(int fd, const oci::Descriptor& blob, const char* kind);

    const store::Store& store_;
    const Options& options_;
    Meter& meter_;
    std::string what_;
    std::string image_;  ///< REGISTRY/NAME
    std::unique_ptr<oci::Source> source_;
    oci::Registry target_;
    std::string place_;
    std::string layer_;  ///< the present one, in messages
    PublishedImage out_{Digest::from_hex(std::string(64, '0')).value()};
};

/// Whether an earlier publication has every layer.
bool Publication::is_there(const Digest& manifest, const oci::ImageDescription& description) {
    auto found = target_.find_attached(oci::artifact_tag(manifest), "published layers");
    if (!found) return false;
    try {
        oci::Artifact artifact = oci::parse_artifact(found->bytes, what_);
        return artifact.index && has_all(artifact, description);
    } catch (const Error&) {
        return false;  // it is replaced
    }
}

PublishedImage Publication::run(const Digest& manifest, bool anew) {
    out_.manifest = manifest;
    oci::ImageDescription description = describe(store_, manifest, what_);
    std::string document = store_.read_document(manifest, "manifest.json");
    auto parsed = std::get<oci::Manifest>(oci::parse_manifest(document, "", what_));
    meter_.begin(Phase::asking, cat("asking ", place_, " what is published of ", what_));
    out_.layers = description.diff_ids.size();
    out_.was_there = !anew && is_there(manifest, description);
    if (out_.was_there) return out_;
    oci::Artifact artifact{{type_of(oci::MediaKind::manifest), manifest, document.size()}, image_, {}};
    for (size_t i = 0; i < parsed.layers.size(); ++i) {
        layer_ = cat("layer ", i + 1, " of ", parsed.layers.size(), " of ", what_);
        if (artifact.find(description.diff_ids[i]) == nullptr)
            add_layer(artifact, parsed.layers[i], description.diff_ids[i]);
    }
    meter_.begin(Phase::writing, cat("bringing what is published of ", what_, " to ", place_));
    if (has_all(artifact, description)) add_early_parts(artifact, description);
    target_.put_blob(std::string(oci::empty_config));
    std::string text = oci::make_artifact(artifact);
    bool is_listed = target_.put_manifest(oci::artifact_tag(manifest), type_of(oci::MediaKind::manifest), text);
    if (!is_listed) list(manifest, text);
    out_.layers = artifact.layers.size();
    return out_;
}

/// What a start needs that does not wait for the layers.
void Publication::add_early_parts(oci::Artifact& artifact, const oci::ImageDescription& description) {
    EarlyParts parts = make_early_parts(store_, description, what_);
    artifact.index = bring(parts.index, oci::index_type);
    artifact.sums = bring(parts.sums, oci::sums_type);
    if (auto profile = store_.find_document(out_.manifest, store::profile_file))
        artifact.profile = bring(*profile, oci::profile_type);
}

oci::Descriptor Publication::bring(const std::string& bytes, const char* type) {
    target_.put_blob(bytes);
    return {type, oci::sha256_of(bytes), bytes.size()};
}

/// For other tools: a registry without the referrers API has the list at a tag.
void Publication::list(const Digest& manifest, const std::string& artifact) {
    auto old = target_.find_attached(oci::referrers_tag(manifest), "referrers");
    oci::Descriptor mine{type_of(oci::MediaKind::manifest), oci::sha256_of(artifact), artifact.size()};
    target_.put_manifest(oci::referrers_tag(manifest), type_of(oci::MediaKind::index),
                         oci::with_referrer(old ? old->bytes : "", mine, cat("the referrers of ", what_)));
}

/// A layer that does not come out as it was is left out, which costs those who pull no more than before.
void Publication::add_layer(oci::Artifact& artifact, const oci::Descriptor& blob, const Digest& diff_id) try {
    artifact.layers.push_back(publish_layer(blob, diff_id));
} catch (const oci::Unreachable&) {
    throw;
} catch (const SysError&) {
    throw;
} catch (const squash::LayerDiffers& problem) {
    ++out_.left_out;
    meter_.warn(cat(layer_, " is not published: ", problem.what()));
}

oci::PublishedLayer Publication::publish_layer(const oci::Descriptor& blob, const Digest& diff_id) {
    store::Store::Layer stored = store_.find_layer(diff_id);
    if (!stored.file) throw Error(cat(layer_, " has gone from the store ", store_.path(), "; pull the image again"));
    auto sums = read_seal(stored.file.get(), layer_);
    if (!sums) throw squash::LayerDiffers("an older release has stored it; remove the image and pull it again");
    squash::LayerFiles files(stored.file.get(), layer_, *sums);
    store::NewFile remainder = store_.new_file();
    split(blob, diff_id, files, remainder.fd());
    prove(remainder.fd(), diff_id, files);
    oci::PublishedLayer out{diff_id, descriptor_of(stored.file.get(), oci::published_layer_type, layer_),
                            descriptor_of(remainder.fd(), oci::remainder_type, layer_)};
    bring(stored.file.get(), out.squashfs, "");
    bring(remainder.fd(), out.remainder, "the remainder of ");
    return out;
}

/// Writes what the layer file lacks of the tar stream that the registry sends.
void Publication::split(const oci::Descriptor& blob, const Digest& diff_id, squash::LayerFiles& files, int remainder) {
    meter_.begin(Phase::reading, cat("reading ", layer_), blob.size);
    oci::Sha256 packed, unpacked;
    oci::TarSplitter splitter(files, [&](std::string_view bytes) { sys::write_all(remainder, bytes, layer_); });
    oci::LargeWindows windows(options_.limits.memory);
    auto feed = [&](std::string_view tar) {
        unpacked.update(tar);
        splitter.feed(tar);
    };
    auto unpacker = oci::make_decompressor(feed, oci::best_gzip_engine(), &windows);
    source_->stream(blob, [&](std::string_view bytes) {
        packed.update(bytes);
        unpacker->feed(bytes);
        meter_.advance(bytes.size());
    });
    unpacker->finish();
    splitter.finish();
    if (packed.finish() != blob.digest || unpacked.finish() != diff_id)
        throw Error(cat(layer_, ": the registry has sent other bytes than those of ", blob.digest, "; refused"));
}

void Publication::prove(int remainder, const Digest& diff_id, squash::LayerFiles& files) {
    meter_.begin(Phase::verifying, cat("proving that ", layer_, " can be made again"));
    oci::LayerProof proof(files, {});
    read_through(remainder, layer_, [&](std::string_view bytes) { proof.feed(bytes); });
    if (proof.finish() != diff_id) throw squash::LayerDiffers("its tar stream does not come out as it was");
}

void Publication::bring(int fd, const oci::Descriptor& blob, const char* kind) {
    meter_.begin(Phase::writing, cat("bringing ", kind, layer_, " to ", place_), blob.size);
    target_.put_blob(blob.digest, {fd, blob.size, [&](uint64_t bytes) { meter_.advance(bytes); }});
}

}  // namespace

PublishedImage publish_image(const store::Store& store, const plan::Reference& image, const Options& options,
                             const plan::Reference& repository, bool anew, Meter& meter) {
    if (image.kind != plan::Reference::Kind::registry)
        throw Error(cat("image ", printable(image.text(), 1024),
                        ": only layers of images in registries are published; push it to one"));
    Digest digest = pull(store, image, options, meter);
    Digest manifest = store.image_of(digest).value_or(digest);
    // Nothing is removed meanwhile.
    store::Lease lease = store.lease(manifest);
    return Publication(store, image, options, repository, meter).run(manifest, anew);
}

}  // namespace berth::pull
