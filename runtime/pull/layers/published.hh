// Layers that are fetched in the form in which Berth runs them (share.artifacts), instead of being converted here.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/oci/artifact.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/image/documents.hh"
#include "runtime/pull/image/options.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/request/reference.hh"
#include "runtime/store/store.hh"
#include "runtime/trust/judge.hh"

namespace berth::pull {

/// What is published of an image, and where it comes from.
struct Published {
    oci::Artifact artifact;
    plan::Reference place;
    std::unique_ptr<nodes::RememberingSource> source;
    bool is_trusted = false;  ///< a key of the site's has signed it: layers may be used before they are proved
    std::string document = {};                        ///< the artifact's manifest
    std::vector<trust::Signature> signatures = {};    ///< that were found of it
};

/// The repository in which layers of the image are published: share.artifacts, where "referrers" stands for the
/// image's own. Nothing when the site has none, and for images that come from no registry.
std::optional<plan::Reference> artifact_repository(const ArtifactRules& rules, const plan::Reference& image);

/// The options for the artifact's repository, with what the caller's say of retries and stopping.
Options options_there(const Options& options, const plan::Reference& repository);

/// One request, and those for signatures where they count. Nothing when nothing is published of the manifest; what
/// cannot be asked or read, or is larger than the site lets images be, is a warning, since the image can be converted.
/// `known`: what another node has told of the image; without the artifact in it, nothing is published.
std::optional<Published> find_published(const store::Store& store, const plan::Reference& image,
                                        const Digest& manifest, const Options& options, Meter& meter,
                                        const nodes::DocumentList* known = nullptr);

/// Throws Error naming `what` where the file's disk has no room for so many bytes.
void check_room(int fd, uint64_t bytes, const std::string& what);
/// Writes the bytes that the artifact names to the empty file `fd`. What they are has still to be proved. `taken` is
/// told of bytes as they come, and throws to stop. Throws Error naming `what`, before a byte is asked for where there
/// is no room for them.
void fetch_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void(uint64_t)>& taken);
/// Throws Error unless the file can be read as a layer, with the sums of its blocks.
void check_published(int fd, const std::string& what);
/// Proves that the file is what converting would make of the layer with this diff_id; see
/// runtime/oci/remainder/proof.hh. `watch` is called now and then, and throws to stop. Throws squash::LayerDiffers when
/// it is something else, other Errors when that cannot be known.
void prove_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void()>& watch);
/// The same, by the layer itself as the image's manifest names it: `source` is the image's. `read` is told of its bytes
/// as they come.
void prove_by_blob(oci::Source& source, const oci::Descriptor& blob, const Digest& diff_id, int fd,
                   const std::string& what, const std::function<void(uint64_t)>& read);

}  // namespace berth::pull
