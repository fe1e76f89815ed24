// Logins for registries as other programs keep them: docker's and podman's JSON, Enroot's netrc lines. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::oci {

/// A login for a registry; empty for an anonymous access. Never to be put into a message, an argument or a log, save
/// user and source.
struct Credentials {
    std::string user;
    std::string password;
    std::string identity_token;  ///< exchanged at the token server (OAuth 2 refresh token)
    std::string registry_token;  ///< sent to the registry as it is
    std::string source;          ///< the file or program it comes from, for messages
    /// Of an entry for the host without its port: for Basic and the registry that the user has named, by TLS, alone.
    bool direct_only = false;

    bool empty() const { return user.empty() && password.empty() && identity_token.empty() && registry_token.empty(); }
};

/// A login and the registry, or the part of one, that it is for.
struct Login {
    std::string host;  ///< as registry_host() writes it
    std::string path;  ///< "" or a prefix of the repository's name, "team/project"
    Credentials credentials;
    /// of .credentials: words that make the password, "$TOKEN" or "$(program)"; empty: there is one
    std::string expression;
};

/// docker's config.json or podman's auth.json (containers-auth.json(5)).
struct LoginFile {
    std::vector<Login> logins;
    std::map<std::string, std::string> helpers;  ///< host -> NAME of docker-credential-NAME; empty: none for it
    std::string store;                           ///< NAME for all hosts, or empty
    std::vector<std::string> unusable;           ///< hosts whose entries cannot be understood
};

/// The one name of a registry: a key of those files without scheme and path, in lower case, and "registry-1.docker.io"
/// for each of Docker Hub's names.
std::string registry_host(std::string_view key);

/// The address by which docker's files and helpers know the registry `host`.
std::string docker_key(const std::string& host);

/// What is wrong with the entry of one host is no fault of the others'. Throws Error naming `file`, without a byte of
/// its content, where it is not what docker and podman write.
LoginFile parse_login_file(std::string_view text, const std::string& file);

/// NAME of a text that is wholly "$NAME" or "${NAME}"; nothing for any other.
std::optional<std::string> variable_name(std::string_view text);

/// The host without the port of HOST:PORT; empty where there is no port.
std::string host_without_port(const std::string& host);

/// The lines `machine HOST login USER password PASSWORD` of Enroot's .credentials, with `#` comments. `$oauthtoken` is
/// itself. A password that begins with another `$`, or with a backquote, is an expression and goes on to the end of its
/// line, as in Enroot (common::evalnetrc of src/common.sh, 4.1.2). The host of an entry without a plain user or without
/// a password is added to `unusable`. Token servers that stand for a registry (auth.docker.io, authn.nvidia.com) count
/// as the registry.
std::vector<Login> parse_netrc(std::string_view text, const std::string& file, std::vector<std::string>& unusable);

/// The login for a repository: of this host, of `user` when one is named, with the longest path that leads to
/// `repository`. Null when there is none.
const Login* choose_login(const std::vector<Login>& logins, const std::string& host, const std::string& repository,
                          const std::string& user);

/// True for a name that makes docker-credential-NAME a plain file name.
bool is_helper_name(std::string_view name);

/// The answer of `docker-credential-NAME get`. Throws Error naming `program`, without a byte of the answer.
Credentials parse_helper_answer(std::string_view answer, const std::string& program);

}  // namespace berth::oci
