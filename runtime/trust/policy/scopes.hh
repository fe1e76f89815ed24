// Which scopes the reference implementation takes for each of its transports. Pure.
#pragma once
#include <string>

namespace berth::trust {

/// What is wrong with a scope; empty when nothing is. The scope "" is right, and so is every one of a transport that
/// nobody knows, or that Debian's builds leave out (atomic, ostree).
std::string scope_mistake(const std::string& transport, const std::string& scope);

}  // namespace berth::trust
