// How registries are spoken to.
#pragma once
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/oci/auth/credentials_search.hh"
#include "runtime/oci/registry/http.hh"
#include "runtime/oci/registry/retry.hh"

namespace berth::oci {

struct RegistryOptions {
    std::set<std::string> plain_http;  ///< "host" or "host:port" that may be spoken to without TLS; loopback always may
    /// "host[:port]" -> PEM file of trusted roots, for it and what it leads to; else the system's
    std::map<std::string, std::string> ca;
    /// "host[:port]", asked for everything before the registry itself, with the same names
    std::vector<std::string> mirrors;
    std::string proxy;                      ///< see HttpRequest
    std::string no_proxy;
    /// Looks the login for a host up; called at most once a host, when it asks for one. None: every access is
    /// anonymous.
    std::function<CredentialSearch(const std::string& host)> credentials;
    /// Takes a line about a mirror that is passed over, or a login file that others can read; from any thread.
    std::function<void(const std::string&)> notice;
    /// Told of a wait of a second or more before a request is tried again, and why; from any thread.
    std::function<void(std::chrono::milliseconds, const std::string& reason)> retrying;
    RetryRules retry;
    unsigned head_retries = UINT_MAX;  ///< at most so many for a HEAD, where something else stands in for the answer
    HttpLimits limits;
    const std::atomic<bool>* stop = nullptr;
};

}  // namespace berth::oci
