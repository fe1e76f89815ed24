// Finds the login for a registry in the files and programs of the user who pulls.
#pragma once
#include <functional>
#include <optional>
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
    bool commands = false;      ///< $(command) in .credentials counts (registry.auth_commands)
    std::string config_file = {};  ///< ${XDG_CONFIG_HOME:-~/.config}/containers/auth.json
    std::string run_file = {};  ///< /run/containers/UID/auth.json, podman's without XDG_RUNTIME_DIR
    /// The value of a variable of the user's, which a password in .credentials may be. None: no variable is set.
    std::function<std::optional<std::string>(const std::string& name)> variable = {};
};

struct LoginQuery {
    std::string host;                       ///< HOST[:PORT]
    std::string repository = {};
    std::string user = {};                  ///< when not empty, the login has to be this user's
    bool direct = false;                    ///< `machine HOST` of Enroot's file counts for HOST:PORT as well
    std::vector<std::string> refused = {};  ///< sources whose logins the host has refused
    std::vector<std::string> unfit = {};    ///< sources whose logins are for other challenges than the host's
};

struct CredentialSearch {
    Credentials found;                ///< empty: the access is anonymous
    /// "FILE (no such file)", "FILE (nothing for HOST)", ... up to the place of the login
    std::vector<std::string> looked;
    /// Those of them that a person may want to mend, and "FILE (others can read it; chmod 600 it)".
    std::vector<std::string> warnings;
    std::vector<Credentials> refused = {};  ///< user and source of those that were passed over as refused
};

/// What a person wants to know after a refusal by `host`: which logins were sent, in this search's step by others as
/// well, or where none was found. Holds no secret.
std::string login_explanation(const std::string& host, const std::vector<Credentials>& sent,
                              const CredentialSearch& search);

/// In this order: auth_file, podman_file, run_file, config_file, docker's, Enroot's; the first login wins. Within one
/// docker file: credHelpers, credsStore, auths; of a program that is not there nobody is told when auths has a login.
/// What cannot be read, understood, run or evaluated is passed over with a warning.
CredentialSearch find_credentials(const CredentialPlaces& places, const LoginQuery& query);

/// What a docker-credential-NAME said.
struct HelperAnswer {
    int exit_code = 0;
    std::string output;  ///< of its standard output; may be a secret
};
/// Runs docker-credential-`name`, as found in the folders of `path`, with `verb` ("get", "store", "erase") and `input`
/// on its standard input. Throws Error when it cannot be run, or takes more than half a minute. Source of the protocol:
/// github.com/docker/docker-credential-helpers.
HelperAnswer run_credential_helper(const std::string& name, const std::string& path, const std::string& verb,
                                   const std::string& input);

}  // namespace berth::oci
