// Names of images as signatures and policies have them: docker's references in their full form,
// `docker.io/library/debian:12`. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/request/reference.hh"

namespace berth::trust {

struct ImageName {
    std::string domain;  ///< host[:port]; "docker.io" for none
    std::string path;    ///< "library/" is added for Docker Hub's own
    std::string tag;     ///< may be empty
    std::string digest;  ///< "sha256:...", may be empty

    /// Without tag and digest.
    std::string name() const { return domain + "/" + path; }
    std::string text() const;
    bool is_name_only() const { return tag.empty() && digest.empty(); }
};

/// Nothing for what is no reference. Short names get their domain.
std::optional<ImageName> parse_image_name(std::string_view text);

/// True for a domain, or for a full name without tag and digest: what remapIdentity takes for a prefix.
bool is_name_prefix(std::string_view text);

/// What a registry's image is called. A tag counts where the reference has a digest too: the digest then says which
/// bytes are meant, and may itself be no more than what a registry answered about the tag.
ImageName name_of(const plan::Reference& reference);

}  // namespace berth::trust
