#include "runtime/oci/url.hh"

#include <arpa/inet.h>
#include <curl/curl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

using Url = std::unique_ptr<CURLU, decltype(&curl_url_cleanup)>;

Url parsed(const std::string& text) {
    Url url(curl_url(), curl_url_cleanup);
    if (!url || curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK)
        throw Error(cat("\"", printable(text), "\" is not a plain http or https URL"));
    return url;
}

std::string part_of(const Url& url, CURLUPart part, unsigned flags = 0) {
    char* text = nullptr;
    if (curl_url_get(url.get(), part, &text, flags) != CURLUE_OK) return {};
    std::string out = text;
    curl_free(text);
    return out;
}

/// The address of a host in brackets; nothing for others.
std::optional<in6_addr> ipv6_of(const std::string& host) {
    in6_addr address{};
    if (host.size() < 2 || host.front() != '[' || host.back() != ']') return std::nullopt;
    // A link-local address may have an interface behind it.
    std::string text = host.substr(1, std::min(host.find('%'), host.size() - 1) - 1);
    return ::inet_pton(AF_INET6, text.c_str(), &address) == 1 ? std::optional(address) : std::nullopt;
}

/// 0 for what is no IPv4 address. "0xa9fea9fe" is one, as getaddrinfo(3) has it; libcurl turns it into the usual
/// spelling since 7.77 only. So is an IPv6 address that stands for one.
uint32_t ipv4_of(const std::string& host) {
    in_addr address{};
    if (auto ipv6 = ipv6_of(host); ipv6 && IN6_IS_ADDR_V4MAPPED(&*ipv6))
        std::memcpy(&address, ipv6->s6_addr + 12, sizeof address);
    else if (::inet_aton(host.c_str(), &address) == 0)
        return 0;
    return ntohl(address.s_addr);
}

}  // namespace

Origin origin_of(const std::string& url) {
    Url parts = parsed(url);
    Origin out{part_of(parts, CURLUPART_SCHEME), lower(part_of(parts, CURLUPART_HOST)),
               part_of(parts, CURLUPART_PORT, CURLU_DEFAULT_PORT)};
    if ((out.scheme != "http" && out.scheme != "https") || out.host.empty())
        throw Error(cat("\"", printable(url), "\" is not a plain http or https URL"));
    return out;
}

std::string Origin::authority() const {
    return port == (scheme == "https" ? "443" : "80") ? host : cat(host, ":", port);
}

bool Origin::is_loopback() const { return host == "localhost" || host == "[::1]" || ipv4_of(host) >> 24 == 127; }

bool Origin::is_link_local() const {
    auto ipv6 = ipv6_of(host);
    return (ipv6 && IN6_IS_ADDR_LINKLOCAL(&*ipv6)) || ipv4_of(host) >> 16 == 0xA9FE;
}

std::string resolved(const std::string& base, const std::string& location) {
    Url url = parsed(base);
    if (location.empty() || curl_url_set(url.get(), CURLUPART_URL, location.c_str(), CURLU_DISALLOW_USER) != CURLUE_OK)
        throw Error(cat("redirected to \"", printable(location), "\", which is not a plain http or https URL"));
    std::string out = part_of(url, CURLUPART_URL);
    // What belongs to a page and no server.
    return out.substr(0, out.find('#'));
}

std::string url_encoded(std::string_view text) {
    static const char digits[] = "0123456789ABCDEF";
    std::string out;
    for (char c : text) {
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        if (plain) {
            out += c;
        } else {
            auto byte = static_cast<unsigned char>(c);
            out += {'%', digits[byte >> 4], digits[byte & 15]};
        }
    }
    return out;
}

}  // namespace berth::oci
