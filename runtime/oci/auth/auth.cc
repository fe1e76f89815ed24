#include "runtime/oci/auth/auth.hh"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"

namespace berth::oci {

namespace {

constexpr size_t token_limit = 32 << 10;

bool is_token_char(char c) {
    bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return alnum || std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

/// Eats a header from the left.
struct Scanner {
    std::string_view rest;

    void skip(std::string_view blanks) { rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size())); }
    std::string word() {
        size_t end = 0;
        while (end < rest.size() && is_token_char(rest[end])) ++end;
        std::string out(rest.substr(0, end));
        rest.remove_prefix(end);
        return out;
    }
    bool take(char c) {
        if (rest.empty() || rest[0] != c) return false;
        rest.remove_prefix(1);
        return true;
    }
    /// What follows an opening quote; false when there is no closing one.
    bool quoted(std::string& out) {
        while (!rest.empty() && rest[0] != '"') {
            if (rest[0] == '\\' && rest.size() > 1) rest.remove_prefix(1);
            out += rest[0];
            rest.remove_prefix(1);
        }
        return take('"');
    }
};

}  // namespace

std::vector<Challenge> parse_challenges(std::string_view header) {
    std::vector<Challenge> out;
    Scanner scanner{header};
    for (;;) {
        scanner.skip(" \t,");
        std::string name = scanner.word();
        if (name.empty()) return out;
        scanner.skip(" \t");
        if (!scanner.take('=')) {
            out.push_back({lower(name), {}});
            continue;
        }
        scanner.skip(" \t");
        std::string value;
        bool complete = scanner.take('"') ? scanner.quoted(value) : !(value = scanner.word()).empty();
        if (!complete || out.empty()) return out;
        out.back().parameters.emplace(lower(name), value);
    }
}

std::string token_url(const Challenge& challenge, const Origin& registry, const std::string& scope,
                      const std::function<bool(const Origin&)>& plain_allowed) {
    auto parameter = [&](const char* name) {
        auto found = challenge.parameters.find(name);
        return found == challenge.parameters.end() ? std::string() : found->second;
    };
    std::string realm = parameter("realm");
    if (realm.empty())
        throw Error(cat("registry ", registry.authority(), ": asks for a token without saying where to get one"));
    Origin origin = origin_of(realm);
    bool plain = origin.scheme == "http";
    if (origin.is_link_local() || (plain && (registry.scheme != "http" || !plain_allowed(origin))))
        throw Error(cat("registry ", registry.authority(), ": its token server ", printable(realm),
                        " is not one that a login may be sent to; it has to be https"));
    std::string url = realm.substr(0, realm.find('#'));
    std::string separator = url.find('?') == url.npos ? "?" : "&";
    if (std::string service = parameter("service"); !service.empty()) {
        url += cat(separator, "service=", url_encoded(service));
        separator = "&";
    }
    std::string asked = parameter("scope").empty() ? scope : parameter("scope");
    for (const std::string& one : split(asked, ' ')) {
        if (one.empty()) continue;
        url += cat(separator, "scope=", url_encoded(one));
        separator = "&";
    }
    return url;
}

std::string refresh_form(const std::string& token_url, const std::string& identity_token) {
    size_t query = token_url.find('?');
    std::string given = query == token_url.npos ? "" : token_url.substr(query + 1);
    return cat("grant_type=refresh_token&client_id=berth&refresh_token=", url_encoded(identity_token),
               given.empty() ? "" : "&", given);
}

std::string parse_token(std::string_view answer) {
    nlohmann::json document = parse_json(answer, "the token server's answer");
    if (!document.is_object()) throw Error("the token server's answer: not a JSON object");
    std::string token = string_member(document, "token", "the token server's answer").value_or("");
    if (token.empty()) token = string_member(document, "access_token", "the token server's answer").value_or("");
    // Anything else could end the header that it is put into.
    bool sound = std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (token.empty() || token.size() > token_limit || !sound)
        throw Error("the token server's answer: holds no usable token");
    return token;
}

}  // namespace berth::oci
