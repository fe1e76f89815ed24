// Signatures of GPG, checked by the program gpgv, which knows OpenPGP. It is needed only where a policy has signedBy.
#pragma once
#include <string>
#include <vector>

#include "runtime/trust/judge.hh"

namespace berth::trust {

/// The text that `message` signs, and the primary key, one of those in `keyrings` (packets). Throws Error: no gpgv, or
/// the reason that it gives.
Means::GpgText check_by_gpgv(const std::vector<std::string>& keyrings, const std::string& message);

}  // namespace berth::trust
