#include "runtime/oci/auth/credentials.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::oci {

using nlohmann::json;

namespace {

constexpr std::string_view docker_hub = "registry-1.docker.io";

/// A key without scheme: HOST[:PORT][/PATH].
std::string_view without_scheme(std::string_view key) {
    for (std::string_view scheme : {"https://", "http://"})
        if (lower(key.substr(0, scheme.size())) == scheme) return key.substr(scheme.size());
    return key;
}

/// The repository prefix of a key; "/v1/" and "/v2/" are an API's address and no repository.
std::string path_of(std::string_view key) {
    key = without_scheme(key);
    size_t slash = key.find('/');
    std::string_view path = slash == key.npos ? "" : key.substr(slash + 1);
    while (path.ends_with('/')) path.remove_suffix(1);
    return path == "v1" || path == "v2" ? std::string() : std::string(path);
}

/// The library's and our own words may quote the file, so that none of them leaves here.
template <typename Read>
auto without_quotes(const std::string& what, const Read& read) {
    try {
        return read();
    } catch (const std::exception&) {
        throw Error(cat("reading the logins in ", printable(what, 4096),
                        ": it is not the JSON that docker and podman write; mend it or move it away"));
    }
}

Credentials credentials_of(const json& entry, const std::string& file) {
    if (!entry.is_object()) throw Error("no object");
    auto text = [&](const char* name) { return string_member(entry, name, file).value_or(""); };
    Credentials out{.user = text("username"),
                    .password = text("password"),
                    .identity_token = text("identitytoken"),
                    .registry_token = text("registrytoken"),
                    .source = file};
    std::string packed = text("auth");
    if (packed.empty()) return out;
    std::string pair = decode_base64(packed).value();
    size_t colon = pair.find(':');
    if (colon == pair.npos) throw Error("no colon");
    out.user = pair.substr(0, colon);
    out.password = pair.substr(colon + 1);
    // docker pads with NULs.
    while (out.password.ends_with('\0')) out.password.pop_back();
    return out;
}

void add_entry(LoginFile& out, const std::string& key, const json& entry, const std::string& file) try {
    Credentials found = credentials_of(entry, file);
    if (!found.empty()) out.logins.push_back({registry_host(key), path_of(key), std::move(found), {}});
} catch (const std::exception&) {
    out.unusable.push_back(registry_host(key));
}

void add_helper(LoginFile& out, const std::string& host, const json& name) {
    if (name.is_string())
        out.helpers[host] = name.get<std::string>();
    else
        out.unusable.push_back(host);
}

bool is_expression(std::string_view value) {
    return (value.starts_with("$") && value != "$oauthtoken" && value.size() > 1) || value.starts_with('`');
}

/// A word, and its line from there on.
struct NetrcWord {
    std::string text, rest;
};

std::vector<NetrcWord> words_of(std::string_view text) {
    std::vector<NetrcWord> out;
    for (const std::string& line : split(text, '\n')) {
        if (trimmed(line).starts_with('#')) continue;
        std::string blanks = line;
        std::replace_if(blanks.begin(), blanks.end(), [](char c) { return c == '\t' || c == '\r'; }, ' ');
        for (size_t at = 0; (at = blanks.find_first_not_of(' ', at)) != blanks.npos;) {
            size_t end = std::min(blanks.find(' ', at), blanks.size());
            std::string word = blanks.substr(at, end - at);
            // A command's own words are not the file's.
            bool whole = is_expression(word);
            out.push_back({word, whole ? std::string(trimmed(std::string_view(line).substr(at))) : std::string()});
            at = whole && out.size() > 1 && out[out.size() - 2].text == "password" ? blanks.size() : end;
        }
    }
    return out;
}

/// `repository` lies below `path`, compared by whole components.
bool leads_to(const std::string& path, const std::string& repository) {
    return path.empty() || repository == path || repository.starts_with(path + "/");
}

}  // namespace

std::string registry_host(std::string_view key) {
    key = without_scheme(trimmed(key));
    std::string host = lower(key.substr(0, key.find('/')));
    for (std::string_view name : {"docker.io", "index.docker.io", "registry.hub.docker.com"})
        if (host == name) return std::string(docker_hub);
    return host;
}

std::string docker_key(const std::string& host) { return host == docker_hub ? "https://index.docker.io/v1/" : host; }

LoginFile parse_login_file(std::string_view text, const std::string& file) {
    return without_quotes(file, [&] {
        json document = parse_json(text, file);
        if (!document.is_object()) throw Error("no object");
        LoginFile out;
        if (const json* auths = object_member(document, "auths", file))
            for (const auto& [key, entry] : auths->items()) add_entry(out, key, entry, file);
        if (const json* helpers = object_member(document, "credHelpers", file))
            for (const auto& [key, name] : helpers->items()) add_helper(out, registry_host(key), name);
        out.store = string_member(document, "credsStore", file).value_or("");
        return out;
    });
}

std::optional<std::string> variable_name(std::string_view text) {
    if (!text.starts_with('$')) return std::nullopt;
    text.remove_prefix(1);
    if (text.starts_with('{') && text.ends_with('}')) text = text.substr(1, text.size() - 2);
    auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    bool is_name = !text.empty() && is_letter(text[0]) && std::all_of(text.begin(), text.end(), [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9');
    });
    if (!is_name) return std::nullopt;
    return std::string(text);
}

std::string host_without_port(const std::string& host) {
    size_t colon = host.rfind(':');
    // The colons of an IPv6 address stand in brackets.
    if (colon == host.npos || host.find(']', colon) != host.npos) return {};
    return host.substr(0, colon);
}

std::vector<Login> parse_netrc(std::string_view text, const std::string& file, std::vector<std::string>& unusable) {
    std::vector<Login> entries;
    std::vector<NetrcWord> words = words_of(text);
    bool in_machine = false;
    for (size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i].text;
        // An entry for every host would send a login to whoever asks.
        if (word == "default") in_machine = false;
        bool last = i + 1 == words.size();
        if (word == "machine" && !last) {
            std::string host = registry_host(words[++i].text);
            if (host == "auth.docker.io") host = docker_hub;
            if (host == "authn.nvidia.com") host = "nvcr.io";
            entries.push_back({host, "", {}, {}});
            entries.back().credentials.source = file;
            in_machine = true;
        } else if (word == "login" && !last && in_machine) {
            const std::string& user = words[++i].text;
            entries.back().credentials.user = is_expression(user) ? "" : user;
        } else if (word == "password" && !last && in_machine) {
            const NetrcWord& password = words[++i];
            bool expression = is_expression(password.text);
            entries.back().credentials.password = expression ? "" : password.text;
            entries.back().expression = expression ? password.rest : "";
        }
    }
    std::vector<Login> out;
    for (Login& entry : entries)
        if (entry.credentials.user.empty() || (entry.credentials.password.empty() && entry.expression.empty()))
            unusable.push_back(entry.host);
        else
            out.push_back(std::move(entry));
    return out;
}

const Login* choose_login(const std::vector<Login>& logins, const std::string& host, const std::string& repository,
                          const std::string& user) {
    const Login* best = nullptr;
    for (const Login& login : logins) {
        if (login.host != host || !leads_to(login.path, repository)) continue;
        if (!user.empty() && login.credentials.user != user) continue;
        if (best == nullptr || login.path.size() > best->path.size()) best = &login;
    }
    return best;
}

bool is_helper_name(std::string_view name) {
    bool plain = std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
               c == '.';
    });
    return plain && !name.empty() && name.size() < 64;
}

Credentials parse_helper_answer(std::string_view answer, const std::string& program) {
    return without_quotes(program, [&] {
        json document = parse_json(answer, program);
        Credentials out;
        out.user = string_member(document, "Username", program).value_or("");
        std::string secret = string_member(document, "Secret", program).value_or("");
        // By docker's protocol this name says that the secret is an identity token.
        bool token = out.user == "<token>";
        if (token) out.user.clear();
        (token ? out.identity_token : out.password) = std::move(secret);
        out.source = program;
        return out;
    });
}

}  // namespace berth::oci
