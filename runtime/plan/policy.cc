#include "runtime/plan/policy.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

constexpr const char* docker_hub = "registry-1.docker.io";

bool has(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

/// By whole components: "/data" has "/data/x" and not "/database".
bool is_below(const std::string& path, const std::string& folder) {
    return folder == "/" || path == folder || path.starts_with(folder + "/");
}

std::string listed(const std::vector<std::string>& list) {
    std::string out;
    for (const std::string& word : list) out += cat(out.empty() ? "" : " ", printable(word, 4096));
    return out.empty() ? "none" : out;
}

/// "FILE:LINE: KEY", which is what a refusal rests on.
std::string rule(const Site& site, const std::string& key) {
    auto origin = site.origins.find(key);
    return origin == site.origins.end() ? key : cat(origin->second.text(), ": ", key);
}

/// What an entry for a registry is compared with: the host as people write it and the name, or the daemon that has the
/// image.
std::string source_of(const Reference& image) {
    if (image.kind == Reference::Kind::dockerd) return "dockerd";
    if (image.kind == Reference::Kind::podman) return "podman";
    return cat(image.registry == docker_hub ? "docker.io" : image.registry, "/", image.name);
}

bool names_source(const std::vector<std::string>& list, const std::string& source) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
        return entry == "*" || is_below(source, entry.substr(0, entry.find_last_not_of('/') + 1));
    });
}

std::string real(const RealPaths& paths, const std::string& path) {
    auto found = paths.find(path);
    return found == paths.end() ? normalised(path) : found->second;
}

bool allows_path(const std::vector<std::string>& folders, const std::string& path, const RealPaths& paths) {
    std::string wanted = real(paths, path);
    return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
        return folder == "*" || is_below(wanted, real(paths, folder));
    });
}

std::string source_path(const MountRequest& mount, const Caller& caller) {
    return mount.source.starts_with('/') ? mount.source : cat(caller.cwd, "/", mount.source);
}

bool names_caller(const std::vector<std::string>& list, const Caller& caller, const HostFacts& host) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
        if (entry == "*") return true;
        if (!entry.starts_with('@')) return !caller.user.empty() && entry == caller.user;
        return entry.substr(1) == caller.group || has(host.groups, entry.substr(1));
    });
}

void check_source(const Site& site, const std::string& path, const RealPaths& paths) {
    if (!allows_path(site.policy.mount_sources, path, paths))
        throw Error(cat("mounting ", printable(path, 4096), ": ", rule(site, "policy.mount_sources"),
                        " allows mounts from ", listed(site.policy.mount_sources), " only"));
}

/// The sources of the request's mounts, his home among them when it is asked for.
std::vector<std::string> sources_of(const Request& request, const Caller& caller) {
    std::vector<std::string> out;
    for (const MountRequest& mount : request.mounts)
        if (mount.kind == MountRequest::Kind::bind) out.push_back(source_path(mount, caller));
    if (request.mount_home.value_or(false) && !caller.home.empty()) out.push_back(caller.home);
    return out;
}

void add_folders(std::vector<std::string>& paths, const std::vector<std::string>& folders) {
    paths.insert(paths.end(), folders.begin(), folders.end());
}

}  // namespace

std::vector<std::string> policy_paths(const Site& site, const Reference& image) {
    std::vector<std::string> out;
    if (!image.has_path() || has(site.policy.image_paths, "*")) return out;
    out.push_back(image.path);
    add_folders(out, site.policy.image_paths);
    return out;
}

std::vector<std::string> policy_paths(const Site& site, const Request& request, const Caller& caller) {
    if (has(site.policy.mount_sources, "*")) return {};
    std::vector<std::string> out = sources_of(request, caller);
    add_folders(out, site.policy.mount_sources);
    return out;
}

bool asks_for_groups(const Site& site) {
    auto names_group = [](const std::vector<std::string>& list) {
        return std::any_of(list.begin(), list.end(), [](const std::string& entry) { return entry.starts_with('@'); });
    };
    return names_group(site.policy.remap_root) || names_group(site.policy.writable);
}

void check_image(const Site& site, const Reference& image, const RealPaths& real_paths) {
    std::string what = cat("image ", printable(image.text(), 4096), ": ");
    if (image.has_path()) {
        if (!allows_path(site.policy.image_paths, image.path, real_paths))
            throw Error(cat(what, rule(site, "policy.image_paths"), " allows image files below ",
                            listed(site.policy.image_paths), " only"));
        return;
    }
    std::string source = source_of(image);
    if (names_source(site.policy.registries_denied, source))
        throw Error(cat(what, rule(site, "policy.registries_denied"), " forbids images from ",
                        listed(site.policy.registries_denied)));
    if (!names_source(site.policy.registries_allowed, source))
        throw Error(cat(what, rule(site, "policy.registries_allowed"), " allows images from ",
                        listed(site.policy.registries_allowed), " only"));
    if (site.policy.digest_required && !image.digest)
        throw Error(cat(what, rule(site, "policy.digest_required"),
                        " wants images named by their digest; write NAME@sha256:..., as berth pull prints it and berth "
                        "inspect knows it"));
}

bool may_remap_root(const Site& site, const Caller& caller, const HostFacts& host) {
    return names_caller(site.policy.remap_root, caller, host);
}
bool may_write(const Site& site, const Caller& caller, const HostFacts& host) {
    return names_caller(site.policy.writable, caller, host);
}

void check_request(const Site& site, const Request& request, const Caller& caller, const HostFacts& host) {
    for (const std::string& path : sources_of(request, caller)) check_source(site, path, host.real_paths);
    std::string user = caller.user.empty() ? std::to_string(caller.uid) : printable(caller.user);
    if (request.remap_root.value_or(false) && !may_remap_root(site, caller, host))
        throw Error(cat("being root in the container: ", rule(site, "policy.remap_root"), " allows it to ",
                        listed(site.policy.remap_root), " only, and not to ", user));
    if (request.writable.value_or(false) && !may_write(site, caller, host))
        throw Error(cat("writing to the container's root file system: ", rule(site, "policy.writable"),
                        " allows it to ", listed(site.policy.writable), " only, and not to ", user));
}

}  // namespace berth::plan
