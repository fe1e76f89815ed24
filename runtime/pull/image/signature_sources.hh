// Signatures of an image from where they are kept: the store, the image's registry, the site's lookaside folders. All
// of them are bounded in number and size, and nothing in them is trusted.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/oci/registry/registry.hh"
#include "runtime/store/store.hh"
#include "runtime/trust/judge.hh"
#include "runtime/trust/lookaside.hh"

namespace berth::pull {

/// Takes a line about something that was passed over.
using Problem = std::function<void(const std::string&)>;

/// Those that the store remembers of the image; what cannot be read is none.
std::vector<trust::Signature> remembered_signatures(const store::Store& store, const Digest& manifest);

/// At the tag sha256-HEX.sig. What is damaged there is a problem; Unreachable is thrown.
std::vector<trust::Signature> tagged_signatures(oci::Registry& registry, const Digest& manifest,
                                                const Problem& problem);
/// Among the referrers, by the API or the tag that stands in for it. The same.
std::vector<trust::Signature> referring_signatures(oci::Registry& registry, const Digest& manifest,
                                                   const Problem& problem);

/// GPG's, in the folder or below the address `base`. Throws Error when they cannot be read.
std::vector<trust::Signature> lookaside_signatures(const std::string& base, const Digest& manifest,
                                                   const oci::RegistryOptions& options);
/// The .yaml files of a folder; none when it is not there. Throws Error.
trust::Lookaside read_lookaside(const std::string& folder);

}  // namespace berth::pull
