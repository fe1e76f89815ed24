#include "runtime/pull/image/settings.hh"

#include <unistd.h>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"

namespace berth::pull {

oci::RegistryOptions registry_options(const plan::Site& site, const std::string& registry) {
    oci::RegistryOptions out;
    out.proxy = site.network.proxy;
    out.no_proxy = site.network.no_proxy;
    for (const auto& [key, entry] : site.registries) {
        std::string host = oci::registry_host(key);
        if (entry.plain_http) out.plain_http.insert(host);
        if (!entry.ca.empty()) out.ca[host] = entry.ca;
        if (host == oci::registry_host(registry)) out.mirrors = entry.mirrors;
    }
    return out;
}

PullLimits pull_limits(const plan::Site& site) {
    PullLimits out;
    out.compression = {squash::codec_of(site.store.compression), site.store.compression_level};
    unsigned highest = squash::highest_level(out.compression.codec);
    if (site.store.compression_level > highest)
        throw Error(cat("store.compression_level: ", plan::word_of(site.store.compression), " has no level ",
                        site.store.compression_level, "; ",
                        highest == 0 ? "leave it at 0" : cat("write 0 to ", highest)));
    out.connections = site.network.connections;
    out.memory = site.limits.pull_memory;
    out.image_size = site.limits.image_size;
    auto origin = site.origins.find("limits.image_size");
    out.image_size_rule = cat(origin == site.origins.end() ? "" : origin->second.text() + ": ", "limits.image_size");
    return out;
}

SignatureRules signature_rules(const plan::Site& site) {
    auto origin = site.origins.find("policy.signatures");
    return {site.policy.signatures, site.policy.signatures_unnamed,
            cat(origin == site.origins.end() ? "" : origin->second.text() + ": ", "policy.signatures")};
}

namespace {

/// The site's folder of logins for this user: ~ and $HOME are the home, as sites have it from Enroot.
std::string site_auth_folder(std::string path, const std::string& home) {
    if (path == "~" || path.starts_with("~/")) path.replace(0, 1, home);
    for (std::string_view name : {"${HOME}", "$HOME"})
        for (size_t at; (at = path.find(name)) != path.npos && home.find(name) == home.npos;)
            path.replace(at, name.size(), home);
    plan::Caller caller;
    caller.uid = ::getuid();
    caller.home = home;
    return plan::path_for(path, caller);
}

}  // namespace

oci::CredentialPlaces credential_places(const std::vector<std::string>& environment, const plan::Site& site) {
    auto value = [&](const char* name) { return value_in(environment, name); };
    auto below = [](const std::string& folder, const char* path) { return folder.empty() ? folder : folder + path; };
    auto first = [](const std::string& one, const std::string& other) { return one.empty() ? other : one; };
    std::string home = value("HOME");
    oci::CredentialPlaces out;
    out.auth_file = value("REGISTRY_AUTH_FILE");
    out.podman_file = below(value("XDG_RUNTIME_DIR"), "/containers/auth.json");
    std::string config = first(value("XDG_CONFIG_HOME"), below(home, "/.config"));
    out.config_file = below(config, "/containers/auth.json");
    out.run_file = cat("/run/containers/", ::getuid(), "/auth.json");
    out.docker_folder = first(value("DOCKER_CONFIG"), below(home, "/.docker"));
    out.enroot_folder =
        first(first(value("ENROOT_CONFIG_PATH"), site_auth_folder(site.logins.auth_path, home)),
              below(config, "/enroot"));
    out.variable = [environment](const std::string& name) -> std::optional<std::string> {
        return value_in(environment, name.c_str());
    };
    out.commands = site.logins.auth_commands;
    out.path = first(value("PATH"), "/usr/local/bin:/usr/bin:/bin");
    return out;
}

Policy policy_of(const std::string& text) {
    if (auto policy = plan::parse_word<Policy>(text)) return *policy;
    throw Error(cat("pull policy \"", printable(text), "\": not one of newer, missing, always, never"));
}

plan::Site site_of(const std::string& file, const std::vector<std::string>& environment) {
    plan::Site site;
    if (!file.empty()) site = plan::parse_site(sys::read_file(file), file);
    plan::apply_environment(site, environment);
    return site;
}

namespace {

/// `named`: a person has written the registry's host and port.
oci::RegistryOptions options_with(const plan::Reference& reference, const std::string& user, const plan::Site& site,
                                  const Logins& logins, bool named) {
    oci::RegistryOptions out = registry_options(site, reference.registry);
    out.history = logins.history;
    // A user is one of the registry, not of its mirrors.
    out.credentials = [places = logins.places, registry = reference.registry, name = reference.name,
                       wanted = user.empty() ? reference.user : user, named](oci::LoginQuery query) {
        bool of_registry = query.host == registry;
        query.repository = name;
        query.user = of_registry ? wanted : "";
        query.direct = query.direct && of_registry && named;
        return oci::find_credentials(places, query);
    };
    return out;
}

}  // namespace

oci::RegistryOptions options_for(const plan::Reference& reference, const std::string& user, const plan::Site& site,
                                 const Logins& logins) {
    return options_with(reference, user, site, logins, true);
}

ArtifactRules artifact_rules(const plan::Site& site, const Logins& logins) {
    return {site.share.artifacts, [site, logins](const plan::Reference& repository) {
                return options_with(repository, "", site, logins, false);
            }};
}

}  // namespace berth::pull
