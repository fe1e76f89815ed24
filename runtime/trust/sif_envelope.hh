// Signatures of SIF files in DSSE envelopes, by keys that are no PGP keys. Source: github.com/apptainer/sif,
// pkg/integrity/dsse.go.
#pragma once
#include <string>
#include <vector>

#include "runtime/trust/judge.hh"

namespace berth::trust {

/// What the envelope `message` signs, and the fingerprint of that one of `keys` (PEM) by which it does. Throws Error
/// for what is no such envelope, and where none of the keys has signed it.
Means::GpgText text_of_envelope(const std::vector<std::string>& keys, const std::string& message);

}  // namespace berth::trust
