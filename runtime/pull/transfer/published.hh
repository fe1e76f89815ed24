// Layers that are fetched in the form in which Berth runs them (share.artifacts), instead of being converted here.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/oci/artifact.hh"
#include "runtime/oci/source/source.hh"
#include "runtime/pull/progress/progress.hh"
#include "runtime/pull/transfer/options.hh"
#include "runtime/request/reference.hh"

namespace berth::pull {

/// What is published of an image, and where it comes from.
struct Published {
    oci::Artifact artifact;
    std::unique_ptr<oci::Source> source;
};

/// The repository in which layers of the image are published: share.artifacts, where "referrers" stands for the
/// image's own. Nothing when the site has none, and for images that come from no registry.
std::optional<plan::Reference> artifact_repository(const ArtifactRules& rules, const plan::Reference& image);

/// One request. Nothing when nothing is published of the manifest; what cannot be asked or read is a warning, since
/// the image can be converted.
std::optional<Published> find_published(const plan::Reference& image, const Digest& manifest, const Options& options,
                                        Meter& meter);

/// Writes the layer to the empty file `fd` and proves that it is what converting would make of the layer with this
/// diff_id; see runtime/oci/remainder/proof.hh. `taken` is told of bytes as they come, and throws to stop. Throws Error
/// naming `what`.
void fetch_published(oci::Source& source, const oci::PublishedLayer& layer, int fd, const std::string& what,
                     const std::function<void(uint64_t)>& taken);

}  // namespace berth::pull
