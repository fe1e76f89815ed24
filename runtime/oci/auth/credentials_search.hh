// Finds the login for a registry in the files and programs of the user who pulls.
#pragma once
#include <string>
#include <vector>

#include "runtime/oci/auth/credentials.hh"

namespace berth::oci {

/// Where logins may lie, taken from the environment by the program. An empty text: no such place.
struct CredentialPlaces {
    std::string auth_file;      ///< REGISTRY_AUTH_FILE
    std::string podman_file;    ///< ${XDG_RUNTIME_DIR}/containers/auth.json
    std::string docker_folder;  ///< DOCKER_CONFIG, or ~/.docker
    std::string enroot_folder;  ///< ENROOT_CONFIG_PATH, or ${XDG_CONFIG_HOME:-~/.config}/enroot
    std::string path;           ///< folders of docker-credential-NAME; relative ones are passed over
    bool commands = false;      ///< $(command) and $VAR in .credentials count (registry.auth_commands)
};

struct CredentialSearch {
    Credentials found;                ///< empty: the access is anonymous
    /// "FILE (no such file)", "FILE (nothing for HOST)", ... up to the place of the login
    std::vector<std::string> looked;
    std::vector<std::string> warnings;

    /// What a person wants to know after a refusal: which login was sent, or where none was found. Holds no secret.
    std::string explanation(const std::string& host) const;
};

/// In the order of CredentialPlaces; the first login wins. Within one docker file: credHelpers, credsStore, auths.
/// `user`, when not empty, has to be the login's. Throws Error for a file that cannot be read or understood, and for an
/// expression in .credentials that may not be evaluated, or fails, or takes more than half a minute.
CredentialSearch find_credentials(const CredentialPlaces& places, const std::string& host,
                                  const std::string& repository, const std::string& user);

/// Runs docker-credential-NAME with `verb` ("get", "store", "erase") and `input` on its standard input; its standard
/// output. Nothing when it says that it has no such login. Throws Error when it is not found, fails, or takes more than
/// half a minute.
struct HelperAnswer {
    int exit_code = 0;
    std::string output;
};
HelperAnswer run_credential_helper(const std::string& name, const std::string& path, const std::string& verb,
                                   const std::string& input);

}  // namespace berth::oci
