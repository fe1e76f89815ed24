// Keeps logins in docker's config.json, or in the credential program that it names.
#pragma once
#include <optional>
#include <string>

#include "runtime/oci/auth/credentials_search.hh"

namespace berth::oci {

/// `config` (docker's config.json, or empty) with the login for `host` instead of those it had for it; everything else
/// stays as it is. With `elsewhere` only the mark that docker leaves beside a credential program. Pure. Throws Error
/// naming `file` when it cannot be understood.
std::string with_login(const std::string& config, const std::string& file, const std::string& host,
                       const Credentials& login, bool elsewhere);

/// `config` without its logins for `host`; nothing when it has none. Pure.
std::optional<std::string> without_login(const std::string& config, const std::string& file, const std::string& host);

/// Stores a login as docker does: in the folder's config.json (mode 0600, replaced by rename), or by the credsStore or
/// credHelpers named in it. Returns where it is now, for a message.
std::string store_login(const CredentialPlaces& places, const std::string& host, const Credentials& login);

/// Removes it again. Returns false when there was none.
bool erase_login(const CredentialPlaces& places, const std::string& host);

}  // namespace berth::oci
