// Signatures in SIF files: which objects of a file they cover, and whether these are what was signed. Source:
// github.com/apptainer/sif, pkg/integrity.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/trust/judge.hh"
#include "runtime/trust/sif_contents.hh"

namespace berth::trust {

/// Which objects are to be signed. Without a group or object: those of all groups.
struct SifScope {
    std::optional<uint32_t> group = {}, object = {};
    /// Count signatures of the older form, which say nothing of header and descriptors, in place of the others.
    bool older = false;
    /// Take a group with one good signature, the first one, whatever others there are, as a policy does.
    bool one_is_enough = false;
    /// Count signatures in DSSE envelopes, in place of those of PGP; keyrings are keys in PEM then.
    bool envelopes = false;
};

struct SifSignature {
    uint32_t id = 0;                ///< of its object
    std::string key;                ///< fingerprint of the primary key, hexadecimal digits in upper case
    std::vector<uint32_t> objects;  ///< that it covers and that are what was signed
};

/// The signatures of what `scope` says in a SIF file, each of which is good, by a key of `keyrings`, and covers all of
/// its group, no object more or less. `check` is Means::gpg. Throws Error naming `what` (empty: nothing) for anything
/// else: no signature, one of another form, a changed object.
std::vector<SifSignature> verify_sif(SifContents& contents, const std::string& what, const SifScope& scope,
                                     const std::vector<std::string>& keyrings,
                                     const decltype(Means::gpg)& check);

}  // namespace berth::trust
