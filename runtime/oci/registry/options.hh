// How registries are spoken to.
#pragma once
#include <atomic>
#include <chrono>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/oci/auth/credentials_search.hh"
#include "runtime/oci/auth/login_history.hh"
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
    /// Looks a login up; called when a host asks for one, and again when the host has refused what was found. Of the
    /// query it is told host, direct and refused. None: every access is anonymous.
    std::function<CredentialSearch(const LoginQuery&)> credentials;
    /// What is known of the user's logins. None: each client of a registry has its own.
    std::shared_ptr<LoginHistory> history;
    bool anonymous = true;  ///< a host that has refused the logins is asked for a token without one
    /// Takes a line about a mirror or about logins that are passed over ("mirror ...", "logins ..."); from any thread.
    std::function<void(const std::string&)> notice;
    /// Told of a wait of a second or more before a request is tried again, and why; from any thread.
    std::function<void(std::chrono::milliseconds, const std::string& reason)> retrying;
    RetryRules retry;
    unsigned head_retries = UINT_MAX;  ///< at most so many for a HEAD, where something else stands in for the answer
    HttpLimits limits;
    const std::atomic<bool>* stop = nullptr;
};

}  // namespace berth::oci
