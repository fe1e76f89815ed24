#include "runtime/config/site_keys.hh"

#include <algorithm>
#include <type_traits>

#include "runtime/base/json_text.hh"
#include "runtime/config/networks.hh"
#include "runtime/request/reference.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/size.hh"

namespace berth::plan {

namespace {

std::string written(const std::string& text) { return json_text(text); }
std::string written(bool flag) { return flag ? "true" : "false"; }
std::string written(unsigned number) { return std::to_string(number); }
template <typename Setting>
    requires std::is_enum_v<Setting>
std::string written(Setting setting) {
    return json_text(word_of(setting));
}
std::string written(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += cat(out.empty() ? "" : " ", name);
    return json_text(out);
}

/// A setting in its section.
template <typename Section, typename Value>
struct Field {
    Section Site::*section;
    Value Section::*member;
    Value& operator()(Site& site) const { return site.*section.*member; }
    const Value& operator()(const Site& site) const { return site.*section.*member; }
};

/// A section, which makes fields of its members.
template <typename Section>
struct In {
    Section Site::*section;
    template <typename Value>
    Field<Section, Value> operator()(Value Section::*member) const {
        return {section, member};
    }
};
// clang has none for aggregates before version 17.
template <typename Section>
In(Section Site::*) -> In<Section>;

constexpr In store{&Site::store};
constexpr In data{&Site::data};
constexpr In defaults{&Site::defaults};
constexpr In limits{&Site::limits};
constexpr In policy{&Site::policy};
constexpr In slurm{&Site::slurm};
constexpr In security{&Site::security};
constexpr In devices{&Site::devices};
constexpr In mpi{&Site::mpi};
constexpr In events{&Site::events};
constexpr In hooks{&Site::hooks};
constexpr In mount{&Site::mount};
constexpr In network{&Site::network};
constexpr In share{&Site::share};
constexpr In own{&Site::site};
constexpr In logins{&Site::logins};

template <typename Section, typename Value>
std::function<std::string(const Site&)> shown(Field<Section, Value> field) {
    return [field](const Site& site) { return written(field(site)); };
}

/// With the largest unit that says it exactly.
template <typename Section>
std::function<std::string(const Site&)> shown_size(Field<Section, uint64_t> field) {
    return [field](const Site& site) {
        uint64_t size = field(site);
        constexpr std::string_view units = "-KMGT";
        size_t unit = 0;
        for (; size > 0 && size % 1024 == 0 && unit + 1 < units.size(); ++unit) size /= 1024;
        return json_text(cat(size, unit == 0 ? std::string() : std::string(1, units[unit])));
    };
}

template <typename Section>
Key text_key(Field<Section, std::string> field) {
    return {Key::Type::text,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                field(site) = value_of<std::string>(node, key, name, "a text in quotes");
            },
            shown(field)};
}

template <typename Section>
Key flag_key(Field<Section, bool> field) {
    return {Key::Type::flag,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                field(site) = value_of<bool>(node, key, name, "true or false");
            },
            shown(field)};
}

template <typename Section>
Key size_key(Field<Section, uint64_t> field) {
    return {Key::Type::text,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text = value_of<std::string>(node, key, name, "a size in quotes, such as \"512M\"");
                field(site) = parse_size(text, cat(place(name, node.source()), ": ", key));
            },
            shown_size(field)};
}

/// Names with blanks or commas between them.
template <typename Section>
Key names_key(Field<Section, std::vector<std::string>> field) {
    return {Key::Type::text,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text =
                    value_of<std::string>(node, key, name, "names in one pair of quotes, with blanks between them");
                std::replace(text.begin(), text.end(), ',', ' ');
                field(site).clear();
                for (const std::string& word : split(text, ' '))
                    if (!word.empty()) field(site).push_back(word);
            },
            shown(field)};
}

std::string list_text(const std::vector<std::string>& entries) {
    std::string out;
    for (const std::string& entry : entries) out += cat(out.empty() ? "" : ", ", json_text(entry));
    return cat("[", out, "]");
}

/// The texts of a list; of a variable, which is a text, its lines.
std::vector<std::string> texts_of(const toml::node& node, const std::string& key, const std::string& name,
                                  const char* what) {
    std::vector<std::string> out;
    if (const toml::array* list = node.as_array()) {
        for (const toml::node& entry : *list) out.push_back(value_of<std::string>(entry, key, name, what));
        return out;
    }
    for (const std::string& line : split(value_of<std::string>(node, key, name, what), '\n'))
        if (!trimmed(line).empty()) out.emplace_back(trimmed(line));
    return out;
}

/// A list of texts, each of which `check` may refuse by an Error.
template <typename Section>
Key list_key(Field<Section, std::vector<std::string>> field, const char* what,
             void (*check)(const std::string& text)) {
    return {Key::Type::text,
            [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::vector<std::string> texts = texts_of(node, key, name, what);
                for (const std::string& text : texts) try {
                        check(text);
                    } catch (const Error& error) {
                        throw Error(cat(place(name, node.source()), ": ", key, ": \"", printable(text, 4096), "\": ",
                                        std::string(error.what()).substr(0, std::string(error.what()).find('\n'))));
                    }
                field(site) = std::move(texts);
            },
            [field](const Site& site) { return list_text(field(site)); }};
}

/// Relative ones would mean another folder for each user.
void check_site_mount(const std::string& text) {
    for (const MountRequest& wanted : parse_mounts(text))
        if (!wanted.source.empty() && !wanted.source.starts_with('/'))
            throw Error("the source must be an absolute path");
}

/// As it is compared with store.path, and passed on in a line.
void check_shared_store(const std::string& text) {
    if (!text.starts_with('/')) throw Error("it is no absolute path");
    if (normalised(text) != text) throw Error(cat("write it as ", normalised(text)));
    if (printable(text, text.size()) != text) throw Error("it has control characters");
}

/// What may be mounted in a container at the same path.
void check_path(const std::string& text) {
    if (!text.starts_with('/') || normalised(text) != text) throw Error("it is no absolute path, or has . or .. in it");
    if (std::string why = forbidden_target(text); !why.empty()) throw Error(why);
}

void check_variable(const std::string& text) {
    size_t equals = text.find('=');
    if (equals == text.npos || equals == 0 || text.find('\0') != text.npos)
        throw Error("it is not of the form NAME=VALUE");
}

/// `unit` is a word behind the limits, with its space, or nothing.
template <typename Section>
Key number_key(Field<Section, unsigned> field, int64_t least, int64_t most, const char* unit = "") {
    return {Key::Type::number,
            [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                auto number = value_of<int64_t>(node, key, name, "a number");
                if (number < least || number > most)
                    throw Error(
                        cat(place(name, node.source()), ": ", key, " must lie between ", least, " and ", most, unit));
                field(site) = static_cast<unsigned>(number);
            },
            shown(field)};
}

/// "a, b or c".
std::string listed(const std::vector<std::string>& words) {
    std::string out;
    for (const std::string& word : words) out += cat(out.empty() ? "" : word == words.back() ? " or " : ", ", word);
    return out;
}

template <typename Section, typename Setting>
Key word_key(Field<Section, Setting> field) {
    return {Key::Type::text,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                auto setting = parse_word<Setting>(value_of<std::string>(node, key, name, "a text in quotes"));
                if (!setting)
                    throw Error(
                        cat(place(name, node.source()), ": ", key, " must be ", listed(word_list<Setting>())));
                field(site) = *setting;
            },
            shown(field)};
}

/// A directory that stands for the node's root.
template <typename Section>
Key root_key(Field<Section, std::string> field) {
    return {Key::Type::text,
            [field](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                field(site) = value_of<std::string>(node, key, name, "a path in quotes");
                if (!field(site).starts_with('/'))
                    throw Error(cat(place(name, node.source()), ": ", key, " must be an absolute path"));
            },
            shown(field)};
}

/// A word, an absolute path, or nothing.
template <typename Section>
Key place_key(Field<Section, std::string> field, std::string_view word, const char* meaning) {
    return {Key::Type::text, [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                field(site) = value_of<std::string>(node, key, name, "a text in quotes");
                const std::string& text = field(site);
                bool absolute = text.starts_with('/') || text.starts_with("%h/");
                if (!absolute && !text.empty() && text != word)
                    throw Error(cat(place(name, node.source()), ": ", key, " must be ", meaning));
            }, shown(field)};
}

/// Less than `least` bytes would be a pull that cannot be.
void set_pull_memory(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    constexpr uint64_t least = 48ULL << 20;
    size_key(limits(&LimitSettings::pull_memory)).set(site, node, key, name);
    if (site.limits.pull_memory < least)
        throw Error(cat(place(name, node.source()), ": ", key, " must be at least \"48M\""));
}

/// Folders, whole: a relative one would mean another at each start.
template <typename Section>
Key folders_key(Field<Section, std::vector<std::string>> field) {
    Key out = names_key(field);
    out.set = [field, names = out.set](Site& site, const toml::node& node, const std::string& key,
                                        const std::string& name) {
        names(site, node, key, name);
        for (std::string& folder : field(site)) {
            if (folder == "*") continue;
            if (!folder.starts_with('/'))
                throw Error(cat(place(name, node.source()), ": ", key, ": \"", printable(folder, 4096),
                                "\" is no absolute path (\"*\" is every path)"));
            folder = normalised(folder);
        }
    };
    return out;
}

/// What a site may want for all. A network of its own has no way out.
void set_unshare(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    names_key(defaults(&DefaultSettings::unshare)).set(site, node, key, name);
    for (const std::string& word : site.defaults.unshare)
        if (word != "ipc" && word != "pid" && word != "uts" && word != "cgroup")
            throw Error(cat(place(name, node.source()), ": ", key, ": \"", printable(word),
                            "\" is none of the namespaces ipc, pid, uts and cgroup"));
}

/// Keys and sections that there are and that are `wanted`.
void check_keys(const std::vector<std::string>& list, bool (*wanted)(const Key&), const char* kind,
                const std::string& where) {
    for (const std::string& lock : list) {
        bool known = std::any_of(keys().begin(), keys().end(), [&](const auto& entry) {
            return (entry.first == lock || entry.first.starts_with(lock + ".")) && wanted(entry.second);
        });
        if (!known) throw Error(cat(where, ": there is no key or section \"", printable(lock), "\"", kind));
    }
}

void set_locked(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    names_key(policy(&PolicySettings::locked)).set(site, node, key, name);
    check_keys(site.policy.locked, [](const Key&) { return true; }, "", cat(place(name, node.source()), ": ", key));
}

void set_unlocked(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    names_key(policy(&PolicySettings::unlocked)).set(site, node, key, name);
    check_keys(site.policy.unlocked, [](const Key& one) { return one.locked; }, " that is locked by default",
               cat(place(name, node.source()), ": ", key));
}

constexpr const char* stores_wanted = "a list of folders, such as [\"/srv/berth/images\"]";
constexpr const char* mounts_wanted = "a list of mounts, such as [\"/scratch:/scratch\"]";
constexpr const char* paths_wanted = "a list of paths, such as [\"/opt/mpi/lib/libmpi.so.12\"]";
constexpr const char* variables_wanted = "a list of variables, such as [\"NAME=VALUE\"]";

/// Memory is said by its word: an empty text would be a mistake that fills it.
template <typename Section>
Key upper_key(Field<Section, std::string> field) {
    Key out = place_key(field, "memory", "an absolute path of a folder or \"memory\"");
    out.set = [field, set = out.set](Site& site, const toml::node& node, const std::string& key,
                                     const std::string& name) {
        set(site, node, key, name);
        if (field(site).empty()) throw Error(cat(place(name, node.source()), ": ", key, " must not be empty"));
    };
    return out;
}

/// `check` throws Error for a text that it refuses.
template <typename Check>
void checked(const std::string& text, const std::string& where, Check check) try {
    check(text);
} catch (const Error& error) {
    throw Error(cat(where, ": \"", printable(text, 4096), "\": ", error.what()));
}

/// With a sign that stands for nothing all users would write to one file, of which the first one keeps the others out.
void set_event_log(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    place_key(events(&EventSettings::log), "syslog", "an absolute path, \"syslog\" or \"\"").set(site, node, key, name);
    const std::string& path = site.events.log;
    for (size_t at = path.find('%'); at != path.npos; at = path.find('%', at + 2))
        if (at + 1 == path.size() || std::string_view("uUhn%").find(path[at + 1]) == std::string_view::npos)
            throw Error(cat(place(name, node.source()), ": ", key, ": \"", printable(path.substr(at, 2)),
                            "\" stands for nothing; there are %u, %U, %h, %n and %%"));
}

void set_networks(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    names_key(share(&ShareSettings::networks)).set(site, node, key, name);
    for (const std::string& text : site.share.networks)
        checked(text, cat(place(name, node.source()), ": ", key), parse_network);
}

void set_ports(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    text_key(share(&ShareSettings::ports)).set(site, node, key, name);
    checked(site.share.ports, cat(place(name, node.source()), ": ", key), parse_port_range);
}

void check_repository(const std::string& text) {
    if (text.empty() || text == artifacts_beside_images) return;
    Reference repository = parse_reference(text);
    bool is_bare = repository.kind == Reference::Kind::registry && !repository.digest && repository.tag == "latest" &&
                   !text.ends_with(":latest") && repository.user.empty();
    if (!is_bare) throw Error(cat("it is no REGISTRY/NAME, nor \"", artifacts_beside_images, "\""));
}

void set_artifacts(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    text_key(share(&ShareSettings::artifacts)).set(site, node, key, name);
    checked(site.share.artifacts, cat(place(name, node.source()), ": ", key), check_repository);
}

Key locked(Key key) {
    key.locked = true;
    return key;
}

}  // namespace

const std::map<std::string, Key>& keys() {
    static const std::map<std::string, Key> all = {
        {"store.path", text_key(store(&StoreSettings::path))},
        {"store.pull", word_key(store(&StoreSettings::pull))},
        {"store.start", word_key(store(&StoreSettings::start))},
        {"store.fresh_for", number_key(store(&StoreSettings::fresh_for), 0, 24 * 3600, " seconds")},
        {"store.compression", word_key(store(&StoreSettings::compression))},
        {"store.compression_level", number_key(store(&StoreSettings::compression_level), 0, 22)},
        {"store.shared", locked(list_key(store(&StoreSettings::shared), stores_wanted, check_shared_store))},
        {"store.shared_owner", locked(text_key(store(&StoreSettings::shared_owner)))},
        {"data.path", text_key(data(&DataSettings::path))},
        {"defaults.remap_root", flag_key(defaults(&DefaultSettings::remap_root))},
        {"defaults.mount_home", flag_key(defaults(&DefaultSettings::mount_home))},
        {"defaults.writable", flag_key(defaults(&DefaultSettings::writable))},
        {"defaults.entrypoint", flag_key(defaults(&DefaultSettings::entrypoint))},
        {"defaults.container_scope", word_key(defaults(&DefaultSettings::container_scope))},
        {"defaults.unshare", {Key::Type::text, set_unshare, shown(defaults(&DefaultSettings::unshare))}},
        {"defaults.home", word_key(defaults(&DefaultSettings::home))},
        {"defaults.mount_propagation", word_key(defaults(&DefaultSettings::mount_propagation))},
        {"limits.tmpfs_size", size_key(limits(&LimitSettings::tmpfs_size))},
        {"limits.stall_time", number_key(limits(&LimitSettings::stall_time), 1, 24 * 3600, " seconds")},
        {"limits.fetch_rate", size_key(limits(&LimitSettings::fetch_rate))},
        {"limits.store_size", size_key(limits(&LimitSettings::store_size))},
        {"limits.store_age", number_key(limits(&LimitSettings::store_age), 0, 36500, " days")},
        {"limits.pull_memory", {Key::Type::text, set_pull_memory, shown_size(limits(&LimitSettings::pull_memory))}},
        {"limits.image_size", size_key(limits(&LimitSettings::image_size))},
        {"limits.pull_time", number_key(limits(&LimitSettings::pull_time), 0, 7 * 24 * 3600, " seconds")},
        {"policy.registries_allowed", names_key(policy(&PolicySettings::registries_allowed))},
        {"policy.registries_denied", names_key(policy(&PolicySettings::registries_denied))},
        {"policy.digest_required", flag_key(policy(&PolicySettings::digest_required))},
        {"policy.signatures", place_key(policy(&PolicySettings::signatures), "", "an absolute path of a file or \"\"")},
        {"policy.signatures_unnamed", flag_key(policy(&PolicySettings::signatures_unnamed))},
        {"policy.mount_sources", folders_key(policy(&PolicySettings::mount_sources))},
        {"policy.image_paths", folders_key(policy(&PolicySettings::image_paths))},
        {"policy.image_owners", names_key(policy(&PolicySettings::image_owners))},
        {"policy.remap_root", names_key(policy(&PolicySettings::remap_root))},
        {"policy.writable", names_key(policy(&PolicySettings::writable))},
        {"policy.locked", {Key::Type::text, set_locked, shown(policy(&PolicySettings::locked))}},
        {"policy.unlocked", {Key::Type::text, set_unlocked, shown(policy(&PolicySettings::unlocked))}},
        {"slurm.resolve_tags", word_key(slurm(&SlurmSettings::resolve_tags))},
        {"slurm.unknown_image", word_key(slurm(&SlurmSettings::unknown_image))},
        {"slurm.client_in_container", flag_key(slurm(&SlurmSettings::client_in_container))},
        {"slurm.client_files", names_key(slurm(&SlurmSettings::client_files))},
        {"security.seccomp", word_key(security(&SecuritySettings::seccomp))},
        {"security.seccomp_allow", names_key(security(&SecuritySettings::seccomp_allow))},
        {"security.seccomp_deny", names_key(security(&SecuritySettings::seccomp_deny))},
        {"security.fake_chown", flag_key(security(&SecuritySettings::fake_chown))},
        {"security.nested", locked(word_key(security(&SecuritySettings::nested)))},
        {"security.root_capabilities", locked(word_key(security(&SecuritySettings::root_capabilities)))},
        {"security.mask", flag_key(security(&SecuritySettings::mask))},
        {"devices.nvidia", word_key(devices(&DeviceSettings::nvidia))},
        {"devices.driver_root", locked(root_key(devices(&DeviceSettings::driver_root)))},
        {"devices.device_root", locked(root_key(devices(&DeviceSettings::device_root)))},
        {"devices.rdma", word_key(devices(&DeviceSettings::rdma))},
        {"devices.rdma_userspace", flag_key(devices(&DeviceSettings::rdma_userspace))},
        {"devices.fuse", flag_key(devices(&DeviceSettings::fuse))},
        {"devices.restrict", flag_key(devices(&DeviceSettings::restricted))},
        {"devices.disabled", names_key(devices(&DeviceSettings::disabled))},
        {"devices.cdi", names_key(devices(&DeviceSettings::cdi))},
        {"devices.cdi_folders", locked(names_key(devices(&DeviceSettings::cdi_folders)))},
        {"mpi.replace", flag_key(mpi(&MpiSettings::replace))},
        {"mpi.check", word_key(mpi(&MpiSettings::check))},
        {"mpi.libraries", locked(list_key(mpi(&MpiSettings::libraries), paths_wanted, check_path))},
        {"mpi.dependencies", locked(list_key(mpi(&MpiSettings::dependencies), paths_wanted, check_path))},
        {"mpi.mounts", locked(list_key(mpi(&MpiSettings::mounts), paths_wanted, check_path))},
        {"events.log", {Key::Type::text, set_event_log, shown(events(&EventSettings::log))}},
        {"events.counters", place_key(events(&EventSettings::counters), "", "an absolute path of a folder or \"\"")},
        {"hooks.folder", locked(root_key(hooks(&HookSettings::folder)))},
        {"hooks.timeout", locked(number_key(hooks(&HookSettings::timeout), 1, 600, " seconds"))},
        {"mount.cache_size", size_key(mount(&MountSettings::cache_size))},
        {"mount.volumes", word_key(mount(&MountSettings::volumes))},
        {"mount.upper", upper_key(mount(&MountSettings::upper))},
        {"mount.engine", word_key(mount(&MountSettings::engine))},
        {"mount.modes", word_key(mount(&MountSettings::modes))},
        {"mount.threads", number_key(mount(&MountSettings::threads), 0, 256)},
        {"mount.busy_poll", number_key(mount(&MountSettings::busy_poll), 0, 1000, " microseconds")},
        {"mount.prefetch", flag_key(mount(&MountSettings::prefetch))},
        {"mount.prefetch_guess", flag_key(mount(&MountSettings::prefetch_guess))},
        {"mount.hot_image_size", size_key(mount(&MountSettings::hot_image_size))},
        {"mount.hot_store_size", size_key(mount(&MountSettings::hot_store_size))},
        {"site.mounts", list_key(own(&SiteSettings::mounts), mounts_wanted, check_site_mount)},
        {"site.environment", list_key(own(&SiteSettings::environment), variables_wanted, check_variable)},
        {"site.environment_defaults",
         list_key(own(&SiteSettings::environment_defaults), variables_wanted, check_variable)},
        {"site.enroot_config",
         place_key(own(&SiteSettings::enroot_config), "", "an absolute path of a folder or \"\"")},
        {"site.environments", place_key(own(&SiteSettings::environments), "", "an absolute path of a folder or \"\"")},
        {"registry.auth_path", text_key(logins(&LoginSettings::auth_path))},
        {"registry.auth_commands", locked(flag_key(logins(&LoginSettings::auth_commands)))},
        {"network.connections", number_key(network(&NetworkSettings::connections), 1, 64)},
        {"network.proxy", text_key(network(&NetworkSettings::proxy))},
        {"network.no_proxy", text_key(network(&NetworkSettings::no_proxy))},
        {"share.enabled", flag_key(share(&ShareSettings::enabled))},
        {"share.networks", {Key::Type::text, set_networks, shown(share(&ShareSettings::networks))}},
        {"share.ports", {Key::Type::text, set_ports, shown(share(&ShareSettings::ports))}},
        {"share.rate", size_key(share(&ShareSettings::rate))},
        {"share.artifacts", {Key::Type::text, set_artifacts, shown(share(&ShareSettings::artifacts))}},
        {"share.record", flag_key(share(&ShareSettings::record))},
        {"share.record_time", number_key(share(&ShareSettings::record_time), 1, 86400, " seconds")},
    };
    return all;
}

}  // namespace berth::plan
