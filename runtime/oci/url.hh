// URLs of registries and token servers: where a request goes, and where it may not.
#pragma once
#include <string>
#include <string_view>

namespace berth::oci {

/// The parts of a URL that decide where a request goes.
struct Origin {
    std::string scheme;
    std::string host;  ///< lower case; an IPv6 address in brackets
    std::string port;  ///< never empty
    bool operator==(const Origin&) const = default;

    /// "host" or "host:port" when the port is not the scheme's own.
    std::string authority() const;
    /// 127.0.0.0/8, ::1 and localhost.
    bool is_loopback() const;
    /// 169.254.0.0/16 and fe80::/10, where clouds answer with secrets.
    bool is_link_local() const;
};

/// Pure. Throws Error naming the URL unless it is an absolute URL with a host, and http or https.
Origin origin_of(const std::string& url);

/// Pure. `location` made absolute against `base`; throws Error when that is not possible.
std::string resolved(const std::string& base, const std::string& location);

/// `text` with everything but letters, digits and -._~ as %XX.
std::string url_encoded(std::string_view text);

}  // namespace berth::oci
