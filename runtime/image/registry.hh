// Client of one repository in a registry, by the OCI distribution specification: manifests by HEAD and GET, blobs by GET.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/image/auth.hh"
#include "runtime/image/http.hh"
#include "runtime/image/manifest.hh"
#include "runtime/plan/reference.hh"

namespace berth::image {

struct RegistryOptions {
    std::set<std::string> plain_http;  ///< "host" or "host:port" that may be spoken to without TLS; loopback always may
    std::string ca;                    ///< PEM file of trusted roots; empty: the system's
    Credentials credentials;           ///< not used yet: every access is anonymous
    HttpLimits limits;
    const std::atomic<bool>* stop = nullptr;
};

/// What a registry says about a tag without sending it.
struct Resolution {
    std::string digest;
    std::string etag;
};

struct Document {
    std::string bytes;
    std::string content_type;
    std::string digest;  ///< of the bytes, verified
    std::string etag;
};

/// One thread at a time; sibling() gives another thread its own client with its own connection and the same token.
/// Everything throws Error with one finished line that names the image: not found, no access, rate limited, a fault of the registry, or an
/// Unreachable. Redirects are followed for at most 5 hops, never from https to http and never with the token to another host.
class Registry {
  public:
    Registry(const plan::Reference& reference, RegistryOptions options);
    ~Registry();
    Registry(Registry&&) noexcept;

    Registry sibling() const;

    /// One HEAD for a tag or digest. Nothing when the registry does not tell the digest this way: use get_manifest then.
    std::optional<Resolution> head_manifest(const std::string& tag_or_digest);
    /// Verified against Docker-Content-Digest, and against the digest when asked by one. At most document_limit bytes.
    Document get_manifest(const std::string& tag_or_digest);
    /// A whole small blob, taken from the descriptor's inline data when it is there; size and digest are verified.
    std::string get_blob(const Descriptor& blob);
    /// Streams a blob and verifies its size; the digest is left to the caller, who hashes it anyway.
    void stream_blob(const Descriptor& blob, const Sink& sink);

  private:
    struct Impl;
    explicit Registry(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::image
