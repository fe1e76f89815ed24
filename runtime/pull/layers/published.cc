#include "runtime/pull/layers/published.hh"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/remainder/proof.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/image/admission.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/squash/write/direct_writer.hh"

namespace berth::pull {

namespace {

/// Streams a blob, which has to be what its digest says.
void stream_checked(oci::Source& source, const oci::Descriptor& blob, const oci::Sink& sink) {
    oci::Sha256 hash;
    auto take = [&](std::string_view bytes) {
        hash.update(bytes);
        sink(bytes);
    };
    blob.data ? take(*blob.data) : source.stream(blob, take);
    Digest is = hash.finish();
    if (is != blob.digest) throw Error(cat("the blob ", blob.digest, " has the digest ", is));
}

/// Round the page cache where that is worth it: a third of the time of a pull of such layers.
void write_layer(oci::Source& source, const oci::Descriptor& blob, int fd, const std::string& what,
                 const std::function<void(uint64_t)>& taken) {
    auto direct = squash::DirectWriter::over(fd);
    auto check = [&](int error) {
        if (error != 0) throw SysError(cat("writing ", what), error);
    };
    uint64_t end = 0;
    stream_checked(source, blob, [&](std::string_view bytes) {
        direct ? check(direct->write(end, bytes)) : sys::write_all(fd, bytes, what);
        end += bytes.size();
        taken(bytes.size());
    });
    if (direct) check(direct->flush());
}

/// With the sums of its blocks, so that none is taken that would be an error to whoever runs it.
std::unique_ptr<squash::LayerFiles> open_layer(int fd, const std::string& what) {
    auto sums = read_seal(fd, what);
    if (!sums) throw Error(cat(what, ": it has no seal that this release knows"));
    return std::make_unique<squash::LayerFiles>(fd, what, *sums);
}

/// What a stream says of a layer file: held against it only when all of the stream is known to be what its digest says.
class Finding {
  public:
    /// Runs the step, unless one before has failed.
    template <typename Step>
    void unless_wrong(const Step& step) {
        if (wrong_.empty()) try {
                step();
            } catch (const SysError&) {
                throw;
            } catch (const Error& problem) {
                wrong_ = problem.what();
            }
    }
    /// Throws LayerDiffers when something was wrong.
    void tell() const {
        if (!wrong_.empty()) throw squash::LayerDiffers(wrong_);
    }

  private:
    std::string wrong_;
};

void check_diff_id(const Digest& is, const Digest& wanted, const std::string& what) {
    if (is != wanted) throw Error(cat(what, ": its diff_id is ", is, " instead of ", wanted));
}

/// Whether a key that the site's policy names has signed the artifact, under the artifact's own name. A policy that
/// lets anything run there says nothing of it.
bool is_signed(const store::Store& store, Published& published, const Options& options,
               const nodes::DocumentList* known, Meter& meter) try {
    // What other users read is proved first.
    if (!options.prove_later || options.signatures.policy.empty() || store.is_offered()) return false;
    Admission admission(store, published.place, options, meter);
    if (known != nullptr) admission.offer(*known, nodes::published_signatures_type);
    admission.check(oci::sha256_of(published.document), published.document);
    published.signatures = admission.signatures();
    return !admission.admitted()->signers.empty();
} catch (const Error& problem) {
    meter.note(cat("published layers are proved before they are used: ", problem.what()));
    return false;
}

std::optional<std::string> ask_for_artifact(const plan::Reference& repository, const Options& there) {
    auto found = oci::Registry(repository, there.registry).find_attached(repository.tag, "published layers");
    return found ? std::optional(std::move(found->bytes)) : std::nullopt;
}

std::optional<std::string> told_artifact(const nodes::DocumentList& known) {
    const nodes::ImageDocument* found = nodes::find_type(known, nodes::published_type);
    return found != nullptr ? std::optional(found->bytes) : std::nullopt;
}

/// Sizes that somebody has written who need not be trusted, before a byte is asked for. All layers can be converted.
void check_sizes(const oci::Artifact& artifact, const PullLimits& limits, const std::string& what) {
    uint64_t size = 0;
    for (const oci::PublishedLayer& layer : artifact.layers)
        for (uint64_t half : {layer.squashfs.size, layer.remainder.size})
            size = half > UINT64_MAX - size ? UINT64_MAX : size + half;
    if (limits.image_size != 0 && size > limits.image_size)
        throw Error(cat(what, ": they have ", human_bytes(size), ", more than the ", human_bytes(limits.image_size),
                        " of ", limits.image_size_rule));
}

}  // namespace

void check_room(int fd, uint64_t bytes, const std::string& what) {
    struct statvfs disk {};
    if (::fstatvfs(fd, &disk) != 0 || disk.f_blocks == 0) return;  // it does not say
    uint64_t room = uint64_t{disk.f_bavail} * disk.f_frsize;
    if (bytes > room)
        throw Error(cat(what, ": ", human_bytes(bytes), ", and the disk has room for ", human_bytes(room)));
}

std::optional<plan::Reference> artifact_repository(const ArtifactRules& rules, const plan::Reference& image) {
    if (rules.repository.empty() || image.kind != plan::Reference::Kind::registry) return std::nullopt;
    if (rules.repository == plan::artifacts_beside_images) return image;
    return plan::parse_reference(rules.repository);
}

Options options_there(const Options& options, const plan::Reference& repository) {
    Options out = options;
    out.registry = options.artifacts.registry(repository);
    out.registry.stop = options.registry.stop;
    out.registry.retrying = options.registry.retrying;
    return out;
}

std::optional<Published> find_published(const store::Store& store, const plan::Reference& image,
                                        const Digest& manifest, const Options& options, Meter& meter,
                                        const nodes::DocumentList* known) try {
    auto repository = artifact_repository(options.artifacts, image);
    if (!repository) return std::nullopt;
    repository->tag = oci::artifact_tag(manifest);
    repository->digest.reset();
    std::string what = cat("published layers of image ", printable(image.text(), 1024));
    meter.begin(Phase::asking, cat("asking ", repository->registry, " for ", what));
    Options there = options_there(options, *repository);
    there.registry.retry.retries = std::min(there.registry.retry.retries, 1U);
    auto found = known != nullptr ? told_artifact(*known) : ask_for_artifact(*repository, there);
    if (!found) return std::nullopt;
    oci::Artifact artifact = oci::parse_artifact(*found, what);
    if (artifact.subject.digest != manifest) throw Error(cat(what, ": they are of ", artifact.subject.digest));
    check_sizes(artifact, options.limits, what);
    Published out{.artifact = std::move(artifact),
                  .place = *repository,
                  .source = std::make_unique<nodes::RememberingSource>(
                      oci::make_registry_source(*repository, there.registry)),
                  .document = std::move(*found)};
    if (known != nullptr) out.source->learn(*known);
    out.is_trusted = is_signed(store, out, there, known, meter);
    return out;
} catch (const Error& problem) {
    std::string line = cat("layers are converted here: ", problem.what());
    meter.warn(line);
    meter.note_refused(line);
    return std::nullopt;
}

void fetch_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void(uint64_t)>& taken) {
    check_room(fd, layer.squashfs.size, what);
    write_layer(source, layer.squashfs, fd, what, taken);
}

void check_published(int fd, const std::string& what) { open_layer(fd, what); }

void prove_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void()>& watch) {
    Finding finding;
    std::unique_ptr<squash::LayerFiles> files;
    std::optional<oci::LayerProof> proof;
    finding.unless_wrong([&] {
        files = open_layer(fd, what);
        proof.emplace(*files, oci::LayerLimits(), watch);
    });
    stream_checked(source, layer.remainder, [&](std::string_view bytes) {
        watch();
        finding.unless_wrong([&] { proof->feed(bytes); });
    });
    finding.unless_wrong([&] { check_diff_id(proof->finish(), layer.diff_id, what); });
    finding.tell();
}

void prove_by_blob(oci::Source& source, const oci::Descriptor& blob, const Digest& diff_id, int fd,
                   const std::string& what, const std::function<void(uint64_t)>& read) {
    Finding finding;
    std::unique_ptr<squash::LayerFiles> files;
    std::optional<oci::StreamProof> proof;
    std::unique_ptr<oci::Decompressor> unpacker;
    finding.unless_wrong([&] {
        files = open_layer(fd, what);
        proof.emplace(*files, oci::LayerLimits());
        unpacker = oci::make_decompressor([&](std::string_view tar) { proof->feed(tar); });
    });
    stream_checked(source, blob, [&](std::string_view bytes) {
        read(bytes.size());
        finding.unless_wrong([&] { unpacker->feed(bytes); });
    });
    finding.unless_wrong([&] {
        unpacker->finish();
        check_diff_id(proof->finish(), diff_id, what);
    });
    finding.tell();
}

}  // namespace berth::pull
