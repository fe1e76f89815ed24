#include "runtime/pull/image/documents.hh"

#include <algorithm>

#include "runtime/oci/sha256.hh"

namespace berth::pull::nodes {

const ImageDocument* find_type(const DocumentList& documents, std::string_view type) {
    auto found = std::ranges::find(documents, type, &ImageDocument::content_type);
    return found == documents.end() ? nullptr : &*found;
}

/// Another node's word for what the bytes are counts for nothing.
void RememberingSource::learn(const DocumentList& known) {
    for (const ImageDocument& document : known)
        if (find(document.digest) == nullptr && oci::sha256_of(document.bytes) == document.digest)
            documents_.push_back(document);
}

const ImageDocument* RememberingSource::find(const Digest& digest) const {
    auto found = std::find_if(documents_.begin(), documents_.end(),
                              [&](const ImageDocument& document) { return document.digest == digest; });
    return found == documents_.end() ? nullptr : &*found;
}

oci::Document RememberingSource::manifest(const std::optional<Digest>& digest) {
    if (digest)
        if (const ImageDocument* known = find(*digest))
            return {.bytes = known->bytes, .content_type = known->content_type, .digest = known->digest, .etag = ""};
    oci::Document out = registry_->manifest(digest);
    documents_.push_back({out.digest, out.content_type, out.bytes});
    return out;
}

std::string RememberingSource::blob(const oci::Descriptor& blob) {
    const ImageDocument* known = find(blob.digest);
    if (known != nullptr && known->bytes.size() == blob.size) return known->bytes;
    std::string out = registry_->blob(blob);
    documents_.push_back({blob.digest, "", out});
    return out;
}

void RememberingSource::read_range(const oci::Descriptor& blob, uint64_t from, uint64_t size, const oci::Sink& sink) {
    constexpr uint64_t small = 8 << 20;
    const ImageDocument* known = find(blob.digest);
    if (known != nullptr && known->bytes.size() == blob.size)
        return sink(std::string_view(known->bytes).substr(from, size));
    if (from != 0 || size != blob.size || size > small) return registry_->read_range(blob, from, size, sink);
    std::string bytes;
    registry_->read_range(blob, from, size, [&](std::string_view part) {
        bytes += part;
        sink(part);
    });
    if (oci::sha256_of(bytes) == blob.digest) documents_.push_back({blob.digest, "", std::move(bytes)});
}

}  // namespace berth::pull::nodes
