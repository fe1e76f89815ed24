#include "runtime/plan/policy.hh"

#include <sys/stat.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_file.hh"

namespace berth::plan {

namespace {

constexpr const char* docker_hub = "registry-1.docker.io";

bool has(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
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

bool names_caller(const std::vector<std::string>& list, const Caller& caller, const HostFacts& host) {
    return std::any_of(list.begin(), list.end(), [&](const std::string& entry) {
        if (entry == "*") return true;
        if (!entry.starts_with('@')) return !caller.user.empty() && entry == caller.user;
        return entry.substr(1) == caller.group || has(host.groups, entry.substr(1));
    });
}

/// The folder of a path without its last component, and that component.
std::pair<std::string, std::string> parted(const std::string& path) {
    size_t slash = path.rfind('/');
    return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

/// Where `path` lies when it is no symlink itself.
std::string place_of(const RealPaths& paths, const std::string& path) {
    auto [folder, name] = parted(normalised(path));
    std::string leads_to = real(paths, folder);
    return leads_to == "/" ? "/" + name : cat(leads_to, "/", name);
}

const Mount* judged_mount(const SourcePolicy& policy, const Edit& edit) {
    return is_judged(policy, edit) ? &std::get<Mount>(edit.action) : nullptr;
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

bool allows_all_sources(const Site& site) { return has(site.policy.mount_sources, "*"); }

std::vector<std::string> policy_paths(const Site& site, const std::vector<Edit>& edits) {
    if (allows_all_sources(site)) return {};
    std::vector<std::string> out;
    for (const Edit& edit : edits)
        if (const Mount* mount = judged_mount({}, edit)) {
            out.push_back(mount->source);
            out.push_back(parted(normalised(mount->source)).first);
        }
    add_folders(out, site.policy.mount_sources);
    return out;
}

SourcePolicy judge_sources(const Site& site, const std::vector<Edit>& edits, const RealPaths& real_paths) {
    SourcePolicy out;
    out.everything = allows_all_sources(site);
    if (out.everything) return out;
    for (const std::string& folder : site.policy.mount_sources) out.folders.push_back(real(real_paths, folder));
    out.rule = cat(rule(site, "policy.mount_sources"), " allows mounts from ", listed(site.policy.mount_sources),
                   " only");
    for (const Edit& edit : edits)
        if (const Mount* mount = judged_mount(out, edit)) {
            if (edit.origin.chooser() == Origin::Chooser::site_in_shared_folder)
                out.places[mount->source] = place_of(real_paths, mount->source);
            check_source(out, *mount, edit.origin, real(real_paths, mount->source));
        }
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

bool asks_for_owner(const Site& site, const Reference& image) {
    return image.has_path() && !has(site.policy.image_owners, "*");
}

void check_image_owner(const Site& site, const Reference& image, const ImageOwner& owner) {
    std::string what = cat("image ", printable(image.text(), 4096), ": ", rule(site, "policy.image_owners"));
    const std::vector<std::string>& owners = site.policy.image_owners;
    std::string number = std::to_string(owner.uid), name = owner.user.empty() ? number : printable(owner.user);
    if ((owner.user.empty() || !has(owners, owner.user)) && !has(owners, number))
        throw Error(cat(what, " allows image files of ", listed(owners), " only; this one belongs to ", name));
    if (owner.mode & (S_IWGRP | S_IWOTH))
        throw Error(cat(what, " allows only image files that nobody but their owner can write to; its owner, ", name,
                        ", can run chmod go-w on this one"));
}

bool allows_all_files(const Site& site) {
    return has(site.policy.image_paths, "*") && has(site.policy.image_owners, "*");
}

bool may_remap_root(const Site& site, const Caller& caller, const HostFacts& host) {
    return names_caller(site.policy.remap_root, caller, host);
}
bool may_write(const Site& site, const Caller& caller, const HostFacts& host) {
    return names_caller(site.policy.writable, caller, host);
}

void check_nested(const Site& site) {
    const std::string key = "security.nested";
    if (site.security.nested == Nested::never)
        throw Error(cat("user namespaces in the container: ", rule(site, key), " forbids them"));
    if (site.origins.contains(key)) return;
    // Who has locked these has said so before there was that key.
    for (const char* locked : {"security.seccomp", "security.seccomp_allow", "security.mask"})
        if (is_locked(site, locked))
            throw Error(cat("user namespaces in the container: ", rule(site, "policy.locked"), " has ", locked,
                            "; the site allows them by security.nested = \"on request\""));
}

void check_request(const Site& site, const Request& request, const Caller& caller, const HostFacts& host) {
    std::string user = caller.user.empty() ? std::to_string(caller.uid) : printable(caller.user);
    if (request.remap_root.value_or(false) && !may_remap_root(site, caller, host))
        throw Error(cat("being root in the container: ", rule(site, "policy.remap_root"), " allows it to ",
                        listed(site.policy.remap_root), " only, and not to ", user));
    if (request.nested.value_or(false)) check_nested(site);
    if (request.writable.value_or(false) && !may_write(site, caller, host))
        throw Error(cat("writing to the container's root file system: ", rule(site, "policy.writable"),
                        " allows it to ", listed(site.policy.writable), " only, and not to ", user));
}

}  // namespace berth::plan
