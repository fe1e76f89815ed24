// What the site file and the environment say about registries, as the registry client's options.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/config/site.hh"
#include "runtime/oci/registry/options.hh"
#include "runtime/pull/image/options.hh"

namespace berth::pull {

/// Pure. The options for pulls from `registry`: plain HTTP, certificates, mirrors and the proxy.
oci::RegistryOptions registry_options(const plan::Site& site, const std::string& registry);

/// Pure. Codec, connections and memory. Throws Error for a level that the codec does not have.
PullLimits pull_limits(const plan::Site& site);

/// Pure. Whose signatures images need.
SignatureRules signature_rules(const plan::Site& site);

/// Pure. Where logins lie, by the variables among `environment` (NAME=VALUE).
oci::CredentialPlaces credential_places(const std::vector<std::string>& environment, const plan::Site& site);

/// How logins are found for everything that one pull asks registries for.
struct Logins {
    oci::CredentialPlaces places;
    std::shared_ptr<oci::LoginHistory> history = std::make_shared<oci::LoginHistory>();

    Logins(const std::vector<std::string>& environment, const plan::Site& site)
        : places(credential_places(environment, site)) {}
};

/// Where layers are found ready-made.
ArtifactRules artifact_rules(const plan::Site& site, const Logins& logins);

/// The policy of --policy. Throws Error for what is none.
Policy policy_of(const std::string& text);

/// The site's settings with the user's variables over them. `file` may be empty: the defaults.
plan::Site site_of(const std::string& file, const std::vector<std::string>& environment);

/// The options for one image that a person has named: those of its registry, and the login of `user`, or of the
/// reference's user, or of anybody.
oci::RegistryOptions options_for(const plan::Reference& reference, const std::string& user, const plan::Site& site,
                                 const Logins& logins);

}  // namespace berth::pull
