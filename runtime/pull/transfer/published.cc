#include "runtime/pull/transfer/published.hh"

#include <algorithm>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/transfer/seal.hh"

namespace berth::pull {

namespace {

/// Streams a blob, which has to be what its digest says.
void stream_checked(oci::Source& source, const oci::Descriptor& blob, const oci::Sink& sink) {
    oci::Sha256 hash;
    source.stream(blob, [&](std::string_view bytes) {
        hash.update(bytes);
        sink(bytes);
    });
    Digest is = hash.finish();
    if (is != blob.digest) throw Error(cat("the blob ", blob.digest, " has the digest ", is));
}

void write_layer(oci::Source& source, const oci::Descriptor& blob, int fd, const std::string& what,
                 const std::function<void(uint64_t)>& taken) {
    stream_checked(source, blob, [&](std::string_view bytes) {
        sys::write_all(fd, bytes, what);
        taken(bytes.size());
    });
}

/// With the sums of its blocks, so that none is taken that would be an error to whoever runs it.
squash::LayerFiles open_layer(int fd, const std::string& what) {
    auto sums = read_seal(fd, what);
    if (!sums) throw Error(cat(what, ": it has no seal that this release knows"));
    return {fd, what, *sums};
}

}  // namespace

std::optional<plan::Reference> artifact_repository(const ArtifactRules& rules, const plan::Reference& image) {
    if (rules.repository.empty() || image.kind != plan::Reference::Kind::registry) return std::nullopt;
    if (rules.repository == plan::artifacts_beside_images) return image;
    return plan::parse_reference(rules.repository);
}

std::optional<Published> find_published(const plan::Reference& image, const Digest& manifest, const Options& options,
                                        Meter& meter) try {
    auto repository = artifact_repository(options.artifacts, image);
    if (!repository) return std::nullopt;
    repository->tag = oci::artifact_tag(manifest);
    repository->digest.reset();
    std::string what = cat("published layers of image ", printable(image.text(), 1024));
    meter.begin(Phase::asking, cat("asking ", repository->registry, " for ", what));
    oci::RegistryOptions registry = options.artifacts.registry(*repository);
    registry.stop = options.registry.stop;
    registry.retry.retries = std::min(registry.retry.retries, 1U);
    registry.retrying = options.registry.retrying;
    auto found = oci::Registry(*repository, registry).find_attached(repository->tag, "published layers");
    if (!found) return std::nullopt;
    oci::Artifact artifact = oci::parse_artifact(found->bytes, what);
    if (artifact.subject.digest != manifest) throw Error(cat(what, ": they are of ", artifact.subject.digest));
    return Published{std::move(artifact), oci::make_registry_source(*repository, registry)};
} catch (const Error& problem) {
    meter.warn(cat("layers are converted here: ", problem.what()));
    return std::nullopt;
}

void fetch_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void(uint64_t)>& taken) {
    write_layer(source, layer.squashfs, fd, what, taken);
    squash::LayerFiles files = open_layer(fd, what);
    oci::LayerProof proof(files, {}, [&] { taken(0); });
    stream_checked(source, layer.remainder, [&](std::string_view bytes) { proof.feed(bytes); });
    Digest diff_id = proof.finish();
    if (diff_id != layer.diff_id) throw Error(cat(what, ": its diff_id is ", diff_id, " instead of ", layer.diff_id));
}

}  // namespace berth::pull
