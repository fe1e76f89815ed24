// A site's signature policy in the format of containers-policy.json(5): what is wanted of which image. Reading and
// deciding, both pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trust/policy/image_name.hh"

namespace berth::trust {

/// Which name a signature has to have, seen from the name that the user asked for.
struct SignedIdentity {
    enum class Kind {
        match_exact,
        match_repo_digest_or_exact,
        match_repository,
        exact_reference,
        exact_repository,
        remap_identity,
    };
    Kind kind = Kind::match_repo_digest_or_exact;
    std::string name = {};         ///< of exactReference, exactRepository; the prefix of remapIdentity
    std::string signed_name = {};  ///< what takes the prefix's place
};

/// Where the keys are: files, or the keys themselves.
struct KeySources {
    std::vector<std::string> files = {};
    std::vector<std::string> data = {};
};

/// One of the things that all have to hold.
struct Requirement {
    enum class Kind { accept_anything, reject, sigstore_signed, signed_by, unsupported };
    Kind kind = Kind::reject;
    KeySources keys = {};          ///< of sigstore_signed, signed_by
    SignedIdentity identity = {};  ///< the same
    std::string name = {};         ///< of unsupported: what the policy calls it
};

using Requirements = std::vector<Requirement>;

struct Policy {
    Requirements fallback;  ///< "default"
    std::map<std::string, std::map<std::string, Requirements>> transports;  ///< by transport and scope
};

/// Throws Error naming `what` and the place for whatever the format does not have: unknown keys, duplicate ones, types.
Policy parse_policy(std::string_view text, const std::string& what);

/// An image, as policies find it.
struct Subject {
    std::string transport;                ///< "docker", "dir", ...
    std::string identity;                 ///< the scope of this image alone; may be empty
    std::vector<std::string> namespaces;  ///< wider scopes, the narrowest first
    std::optional<ImageName> name = {};   ///< of a registry's image
    std::string text = {};                ///< for messages
};

Subject subject_of(const ImageName& name);
/// `path` is absolute, without symlinks. Of transports without scopes for paths only the "" one counts.
Subject subject_of(const std::string& transport, const std::string& path);

/// The requirements that hold for an image, and where they stand, for messages.
struct Rule {
    const Requirements* requirements;
    std::string place;  ///< `transports.docker."docker.io/library"`, or `default`
};
Rule rule_for(const Policy& policy, const Subject& subject);

/// Whether a signature for `claimed` is one for `wanted`.
bool matches(const SignedIdentity& identity, const std::optional<ImageName>& wanted, std::string_view claimed);

/// What the policy calls the kind, and which name it wants: "matchRepository", "exactReference docker.io/library/x:1".
std::string describe(const SignedIdentity& identity);

}  // namespace berth::trust
