// Client of one repository in a registry, by the OCI distribution specification: manifests by HEAD and GET, blobs by
// GET.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/oci/manifest.hh"
#include "runtime/oci/registry/http.hh"
#include "runtime/oci/registry/options.hh"
#include "runtime/request/reference.hh"

namespace berth::oci {

/// What a registry says about a tag without sending it.
struct Resolution {
    Digest digest;
    std::string etag;
};

struct Document {
    std::string bytes;
    std::string content_type;
    Digest digest;  ///< of the bytes, verified
    std::string etag;
};

/// One thread at a time; sibling() gives another thread its own client with its own connection and the same token.
/// Everything throws Error with one finished line that names the image: not found, no access, rate limited, a fault of
/// the registry, or an Unreachable once the retries are used up. Redirects are followed for at most 5 hops, never from
/// https to http and never with a login or token to another host.
class Registry {
  public:
    Registry(const plan::Reference& reference, RegistryOptions options);
    ~Registry();
    Registry(Registry&&) noexcept;

    Registry sibling() const;

    /// One HEAD for a tag or digest. Nothing when the registry does not tell the digest this way: use get_manifest
    /// then.
    std::optional<Resolution> head_manifest(const std::string& tag_or_digest);
    /// Verified against Docker-Content-Digest, and against the digest when asked by one. At most document_limit bytes.
    Document get_manifest(const std::string& tag_or_digest);
    /// A manifest of any kind that is no image's: what is attached to images, `kind` for people. Nothing when there is
    /// none. At most document_limit bytes; verified as get_manifest() does.
    std::optional<Document> find_attached(const std::string& tag_or_digest, const std::string& kind = "signatures");
    /// The list of what is attached to a manifest, by the referrers API. Nothing where the registry has no such thing.
    std::optional<std::string> find_referrers(const Digest& manifest);
    /// A whole small blob, taken from the descriptor's inline data when it is there; size and digest are verified, and
    /// what a mirror sends wrong is asked of the next host.
    std::string get_blob(const Descriptor& blob);
    /// Streams a blob and verifies its size; the digest is left to the caller, who hashes it anyway. A transfer that
    /// breaks goes on at the byte it had reached, perhaps from another host: the sink gets each byte once.
    void stream_blob(const Descriptor& blob, const Sink& sink);
    /// The same of `size` bytes of a blob from byte `from` on. Throws NoRanges where the last host sends whole blobs
    /// alone.
    void read_range(const Descriptor& blob, uint64_t from, uint64_t size, const Sink& sink);
    /// Bring something to the registry itself, whatever its mirrors: a small blob; a large one, which is `file` (false
    /// when it is there already); and a manifest of the type under a tag.
    void put_blob(const std::string& bytes);
    bool put_blob(const Digest& digest, const FileBody& file);
    /// True when the registry lists the manifest among the referrers of its subject (OCI-Subject).
    bool put_manifest(const std::string& tag, const std::string& type, const std::string& bytes);
    /// All tags of the repository. Throws Error, also for more than 100,000 of them.
    std::vector<std::string> list_tags();
    /// Removes a manifest and its tags from the registry itself, if it is there. Throws Error.
    void delete_manifest(const Digest& digest);
    /// To be called when the bytes of the last stream_blob() were wrong: see Source::pass_over_senders.
    std::string pass_over_senders();

  private:
    struct Impl;
    explicit Registry(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

/// Tries a login at a registry. Returns when the registry takes it, or needs none; throws Error with the reason.
void check_login(const std::string& host, RegistryOptions options, const Credentials& credentials);

}  // namespace berth::oci
