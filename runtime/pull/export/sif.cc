#include "runtime/pull/export/sif.hh"

#include <unistd.h>

#include <ctime>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/oci/sif_artifact.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/export/image_file.hh"
#include "runtime/pull/export/output_file.hh"
#include "runtime/pull/image/capacity.hh"
#include "runtime/squash/format/image_file.hh"
#include "runtime/store/extracted.hh"
#include "runtime/store/file_record.hh"

namespace berth::pull {

namespace {

/// The SIF file of one reference in its registry.
class SifSource {
  public:
    SifSource(const plan::Reference& reference, const Options& options, Meter& meter)
        : options_(options),
          meter_(meter),
          what_(cat("image oras://", printable(reference.text(), 1024))),
          source_(oci::make_registry_source(reference, options.registry)) {
        meter_.begin(Phase::asking, cat("asking ", reference.registry, " for the manifest of ", what_));
        oci::Document document = source_->manifest(reference.digest);
        manifest_ = document.digest;
        file_ = oci::parse_sif_artifact(document.bytes, what_);
        check_size({*file_, {*file_}}, options_.limits, what_);
    }

    const Digest& manifest() const { return *manifest_; }

    /// What a mirror sent wrong is asked of the next host, and in the end of the registry itself.
    void fetch(int file) {
        meter_.begin_layers(cat("pulling ", what_), {{file_->digest.text(), file_->size}});
        meter_.set_layer(0, LayerState::pulling);
        for (;;) {
            Digest got = received(file);
            if (got == file_->digest) break;
            std::string problem = cat(what_, ": the SIF file's digest is ", got, " instead of ", file_->digest);
            std::string mirrors = source_->pass_over_senders();
            if (mirrors.empty()) throw Error(cat(problem, "; refused"));
            meter_.take_back(0, file_->size);
            meter_.warn(cat("mirror ", mirrors, " passed over: ", problem));
        }
        if (squash::find_squashfs(file, what_).size == 0)
            throw Error(cat(what_, ": what the registry has is no SIF file with a squashfs in it"));
        meter_.set_layer(0, LayerState::done);
    }

  private:
    Digest received(int file) {
        if (::ftruncate(file, 0) != 0 || ::lseek(file, 0, SEEK_SET) != 0) throw SysError(cat("pulling ", what_));
        oci::Sha256 sum;
        source_->stream(*file_, [&](std::string_view data) {
            sum.update(data);
            sys::write_all(file, data, what_);
            meter_.advance_layer(0, data.size());
        });
        return sum.finish();
    }

    const Options& options_;
    Meter& meter_;
    std::string what_;
    std::unique_ptr<oci::Source> source_;
    std::optional<Digest> manifest_;
    std::optional<oci::Descriptor> file_;
};

/// What a tag meant last; it is no tag of an image, which docker:// means by that name.
plan::Reference record_of_sif(const plan::Reference& reference) {
    return store::id_record(oci::sha256_of(cat("oras://", reference.text())).hex());
}

/// The file of the last answer, or of the digest; nothing where it is not here.
std::optional<Digest> known_sif(const store::Store& store, const plan::Reference& reference) {
    std::optional<Digest> digest = reference.digest;
    if (!digest)
        if (auto tag = store.find_tag(record_of_sif(reference))) digest = tag->digest;
    return digest && !store::sif_path(store, *digest).empty() ? digest : std::nullopt;
}

Digest asked_sif(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter) {
    SifSource source(reference, options, meter);
    const Digest& manifest = source.manifest();
    {
        // One process brings it, and the others find it.
        Lock turn = store.lock(manifest);
        if (store::sif_path(store, manifest).empty())
            store::add_sif(store, manifest, [&](int file) { source.fetch(file); });
    }
    plan::Reference record = record_of_sif(reference);
    auto known = store.find_tag(record);
    if (!reference.digest && !(known && known->digest == manifest))
        store.put_tag(record, {manifest, static_cast<int64_t>(::time(nullptr)), "", ""});
    return manifest;
}

}  // namespace

Digest bring_sif(const store::Store& store, const plan::Reference& reference, const Options& options, Meter& meter) {
    std::string what = cat("image oras://", printable(reference.text(), 1024));
    meter.begin(Phase::opening, cat("opening the store ", printable(store.path(), 4096)));
    store.sweep();
    Lock no_removals = store.hold_off_removals();
    auto known = known_sif(store, reference);
    bool asks = options.policy == Policy::always || (options.policy == Policy::newer && !reference.digest);
    if (!known && options.policy == Policy::never)
        throw Error(cat(what, ": not in the store ", printable(store.path(), 4096),
                        ", and the pull policy is never; pull it first"));
    if (!known || asks) try {
            known = asked_sif(store, reference, options, meter);
        } catch (const oci::Unreachable& problem) {
            if (!known || options.policy != Policy::newer) throw;
            meter.warn(cat(problem.what(), "; using the file of the last pull, ", *known));
        }
    // Records the use.
    (void)store.lease(*known);
    return *known;
}

Digest save_sif(const plan::Reference& reference, const std::string& path, bool force, const Options& options,
                Meter& meter) {
    OutputFile output(path);
    if (!force) output.refuse_existing();
    SifSource source(reference, options, meter);
    source.fetch(output.fd());
    let_execute(output.fd(), printable(path, 4096));
    meter.begin(Phase::saving, cat("saving ", printable(path, 4096), " to disk"));
    output.publish(force);
    return source.manifest();
}

}  // namespace berth::pull
