// Where an image comes from. A pull is put together from a source, the layer pipeline and the store, and knows nothing
// else of it.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "runtime/oci/manifest.hh"
#include "runtime/oci/registry/registry.hh"

namespace berth::oci {

/// One thread at a time; sibling() serves another thread. Every function throws Error with one finished line that names
/// the image.
class Source {
  public:
    virtual ~Source() = default;
    Source() = default;
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    /// The digest that the reference means now. Nothing when that is not known without the document: use
    /// manifest() then.
    virtual std::optional<Resolution> resolve() = 0;
    /// The manifest or image index `digest`, or, without one, that which the reference means. The bytes have the digest
    /// that is returned.
    virtual Document manifest(const std::optional<Digest>& digest) = 0;
    Document manifest() { return manifest(std::nullopt); }
    /// A whole small blob (an image's config); size and digest are verified.
    virtual std::string blob(const Descriptor& blob) = 0;
    /// Streams a layer and verifies its size; the digest is left to the caller, who hashes it anyway.
    virtual void stream(const Descriptor& blob, const Sink& sink) = 0;
    /// The same of `size` bytes of a blob from byte `from` on; sources that are no registry's throw NoRanges.
    virtual void read_range(const Descriptor& blob, uint64_t from, uint64_t size, const Sink& sink);
    /// After a stream() whose bytes were not the layer's: the mirrors that sent any of them are asked for nothing more,
    /// by the siblings neither. Returns their names; empty when no mirror had a part in it, so that asking again would
    /// bring the same.
    virtual std::string pass_over_senders() { return {}; }
    /// Another one of the same image, for another thread.
    virtual std::unique_ptr<Source> sibling() const = 0;
};

/// An image of a registry, which is asked nothing before the first call. Throws Error as Registry does.
std::unique_ptr<Source> make_registry_source(const plan::Reference& reference, const RegistryOptions& options);

}  // namespace berth::oci
