// GPG's side of simple signing: keyrings as gpgv reads them, and what gpgv says. Pure.
#pragma once
#include <string>
#include <string_view>

namespace berth::trust {

/// The packets of a key, whether it is in ASCII armor or not. Throws Error naming `what` for broken armor.
std::string keyring_packets(std::string_view key, const std::string& what);

/// The primary key by which exactly one good signature was made, of all the lines that gpgv writes to --status-fd.
/// Throws Error naming `what` with the reason otherwise: bad, expired, revoked, an unknown key, several signatures.
std::string signer_of_status(std::string_view status, const std::string& what);

}  // namespace berth::trust
