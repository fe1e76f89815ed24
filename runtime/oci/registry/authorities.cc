#include "runtime/oci/registry/authorities.hh"

#include <curl/curl.h>
#include <unistd.h>

#include "runtime/base/access.hh"

namespace berth::oci {

std::string authorities(const std::string& own, const std::function<bool(const std::string& path)>& is_there) {
    constexpr const char* places[] = {
        "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Gentoo
        "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and newer
        "/etc/ssl/ca-bundle.pem",                             // SUSE
        "/etc/ssl/cert.pem",                                  // Alpine
    };
    if (!own.empty() && is_there(own)) return {};
    for (const char* place : places)
        if (is_there(place)) return place;
    return {};
}

const std::string& authorities_here() {
    static const std::string here = [] {
        const char* own = nullptr;
#if LIBCURL_VERSION_NUM >= 0x074600
        own = curl_version_info(CURLVERSION_NOW)->cainfo;
#endif
        return authorities(own == nullptr ? "" : own, [](const std::string& path) {
            return sys::may_access(path, R_OK);
        });
    }();
    return here;
}

}  // namespace berth::oci
