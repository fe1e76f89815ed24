// Sigstore's bundle, version 0.3: a signature with what it signs, as one document. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hh"

namespace berth::trust {

inline constexpr const char* bundle_type = "application/vnd.dev.sigstore.bundle.v0.3+json";

struct Bundle {
    std::string signed_bytes;             ///< of an envelope; empty for a message
    std::vector<std::string> signatures;  ///< any of which may be the right one
    std::string statement;                ///< the envelope's payload: in-toto's JSON
    std::optional<Digest> message;        ///< what a message signature is about, in place of a statement
};

/// Throws Error naming `what` for another version, more or less than one content, or a certificate in place of a key.
Bundle parse_bundle(std::string_view text, const std::string& what);

/// What cosign says of an image in a bundle.
struct Statement {
    struct Subject {
        std::string name;  ///< may be empty: cosign 3 names nothing
        Digest digest;
    };
    std::vector<Subject> subjects;
};

/// Throws Error naming `what` unless it is in-toto's statement (v0.1, v1) with cosign's predicate for signatures: other
/// statements (scans, origins) are no consent to run something.
Statement parse_statement(std::string_view text, const std::string& what);

/// What DSSE signs: lengths and contents of type and payload.
std::string pre_authentication(std::string_view type, std::string_view payload);

}  // namespace berth::trust
