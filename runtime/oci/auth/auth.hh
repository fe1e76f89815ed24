// Who may read: the challenges of a registry, and the tokens that answer them. Pure.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/url.hh"

namespace berth::oci {

/// One challenge of a WWW-Authenticate header (RFC 9110, section 11.6.1).
struct Challenge {
    std::string scheme;                             ///< lower case
    std::map<std::string, std::string> parameters;  ///< names in lower case
};

/// Never throws: what cannot be understood ends the list.
std::vector<Challenge> parse_challenges(std::string_view header);

/// The URL to ask for a token that answers a Bearer `challenge` of `registry`, with `scope` where the challenge names
/// none. The realm has to be https, or http when `plain_allowed` says so of its origin and the registry itself is
/// reached by http; never link-local. Throws Error otherwise.
std::string token_url(const Challenge& challenge, const Origin& registry, const std::string& scope,
                      const std::function<bool(const Origin&)>& plain_allowed);

/// The parameters of a token URL as the form of an OAuth 2 refresh (RFC 6749, section 6) with an identity token; the
/// URL to send it to is the part before "?".
std::string refresh_form(const std::string& token_url, const std::string& identity_token);

/// The token in the answer of a token server, `token` or `access_token`. Throws Error when there is none that can be
/// put into a header.
std::string parse_token(std::string_view answer);

}  // namespace berth::oci
