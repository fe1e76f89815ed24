// Signatures as the store keeps them, so that a policy that has changed can be applied without a network. Pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "runtime/trust/judge.hh"

namespace berth::trust {

std::string format_remembered(const std::vector<Signature>& signatures);
/// Throws Error naming `what`.
std::vector<Signature> parse_remembered(std::string_view text, const std::string& what);

}  // namespace berth::trust
