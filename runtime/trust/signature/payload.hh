// What simple signing signs: a document that says which manifest is called by which name. cosign and GPG have the same
// one with another type. Pure.
#pragma once
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"

namespace berth::trust {

/// What a signature claims.
struct Claim {
    Digest manifest;
    std::string name;  ///< the docker-reference, as it is signed
};

enum class PayloadKind { cosign, gpg };

/// As strict as the reference implementation: unknown keys, other types and another kind's document are refused. Throws
/// Error naming `what`.
Claim parse_payload(std::string_view text, PayloadKind kind, const std::string& what);

/// The document that berth signs; `time` in seconds since 1970.
std::string make_payload(const Claim& claim, int64_t time);

}  // namespace berth::trust
