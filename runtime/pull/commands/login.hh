// `berth login` and `berth logout`: a login is tried at its registry, then kept where docker keeps its own.
#pragma once
#include <string>

#include "runtime/oci/auth/credentials_search.hh"
#include "runtime/oci/registry/registry.hh"

namespace berth::pull {

/// Asks for what is missing on the terminal (the password unseen), or reads the password from standard input. Returns
/// the line for the user. Throws Error when the registry does not take the login; then nothing is stored.
std::string login(const std::string& registry, const std::string& user, bool password_from_input,
                  const oci::RegistryOptions& options, const oci::CredentialPlaces& places);

/// Returns the line for the user. Throws Error when there is no login to remove.
std::string logout(const std::string& registry, const oci::CredentialPlaces& places);

}  // namespace berth::pull
