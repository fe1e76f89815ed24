// The documents of an image as one node of the step got them, for all others.
#pragma once
#include <memory>
#include <vector>

#include "runtime/oci/source/source.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

/// Of what is no document of the image's registry: the signatures that a node has found, as stores keep them. Their
/// digest is that of the bytes.
inline constexpr const char* signatures_type = "application/vnd.berth.signatures";
/// The manifest of the image's published layers, and the signatures of that.
inline constexpr const char* published_type = "application/vnd.berth.published";
inline constexpr const char* published_signatures_type = "application/vnd.berth.published-signatures";

/// The first of this type; null when there is none.
const ImageDocument* find_type(const DocumentList& documents, std::string_view type);

/// A source that has some documents at hand and asks `registry` for everything else. It remembers manifests and small
/// blobs that went through it.
class RememberingSource : public oci::Source {
  public:
    explicit RememberingSource(std::unique_ptr<oci::Source> registry) : registry_(std::move(registry)) {}

    /// From now on these are at hand. Those whose bytes are not what their digest says are passed over.
    void learn(const DocumentList& known);

    /// What went through it, and what it has learnt.
    const DocumentList& documents() const { return documents_; }

    using oci::Source::manifest;
    std::optional<oci::Resolution> resolve() override { return registry_->resolve(); }
    oci::Document manifest(const std::optional<Digest>& digest) override;
    std::string blob(const oci::Descriptor& blob) override;
    void stream(const oci::Descriptor& blob, const oci::Sink& sink) override { registry_->stream(blob, sink); }
    void read_range(const oci::Descriptor& blob, uint64_t from, uint64_t size, const oci::Sink& sink) override;
    std::string pass_over_senders() override { return registry_->pass_over_senders(); }
    std::unique_ptr<oci::Source> sibling() const override { return registry_->sibling(); }

  private:
    const ImageDocument* find(const Digest& digest) const;

    std::unique_ptr<oci::Source> registry_;
    DocumentList documents_;
};

}  // namespace berth::pull::nodes
