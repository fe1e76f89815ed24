#include "runtime/config/site_keys.hh"

#include <algorithm>

#include "runtime/config/size.hh"
#include "runtime/request/mounts.hh"

namespace berth::plan {

namespace {

std::string written(const std::string& text) { return quoted(text); }
std::string written(bool flag) { return flag ? "true" : "false"; }
std::string written(unsigned number) { return std::to_string(number); }
std::string written(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += cat(out.empty() ? "" : " ", name);
    return quoted(out);
}

template <typename Value>
std::function<std::string(const Site&)> shown(Value Site::*member) {
    return [member](const Site& site) { return written(site.*member); };
}

/// With the largest unit that says it exactly.
std::function<std::string(const Site&)> shown_size(uint64_t Site::*member) {
    return [member](const Site& site) {
        uint64_t size = site.*member;
        constexpr std::string_view units = "-KMGT";
        size_t unit = 0;
        for (; size > 0 && size % 1024 == 0 && unit + 1 < units.size(); ++unit) size /= 1024;
        return quoted(cat(size, unit == 0 ? std::string() : std::string(1, units[unit])));
    };
}

Key text_key(std::string Site::*member) {
    return {Key::Type::text,
            [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a text in quotes");
            },
            shown(member)};
}

Key flag_key(bool Site::*member) {
    return {Key::Type::flag,
            [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<bool>(node, key, name, "true or false");
            },
            shown(member)};
}

Key size_key(uint64_t Site::*member) {
    return {Key::Type::text,
            [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text = value_of<std::string>(node, key, name, "a size in quotes, such as \"512M\"");
                site.*member = parse_size(text, cat(place(name, node.source()), ": ", key));
            },
            shown_size(member)};
}

/// Names with blanks or commas between them.
Key names_key(std::vector<std::string> Site::*member) {
    return {Key::Type::text,
            [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text =
                    value_of<std::string>(node, key, name, "names in one pair of quotes, with blanks between them");
                std::replace(text.begin(), text.end(), ',', ' ');
                (site.*member).clear();
                for (const std::string& word : split(text, ' '))
                    if (!word.empty()) (site.*member).push_back(word);
            },
            shown(member)};
}

/// `unit` is a word behind the limits, with its space, or nothing.
Key number_key(unsigned Site::*member, int64_t least, int64_t most, const char* unit = "") {
    return {Key::Type::number,
            [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                auto number = value_of<int64_t>(node, key, name, "a number");
                if (number < least || number > most)
                    throw Error(
                        cat(place(name, node.source()), ": ", key, " must lie between ", least, " and ", most, unit));
                site.*member = static_cast<unsigned>(number);
            },
            shown(member)};
}

/// `words` as an error lists them: "a, b or c".
Key word_key(std::string Site::*member, const std::vector<std::string>& words) {
    return {Key::Type::text, [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a text in quotes");
                std::string list;
                for (const std::string& word : words) {
                    if (site.*member == word) return;
                    list += cat(list.empty() ? "" : word == words.back() ? " or " : ", ", word);
                }
                throw Error(cat(place(name, node.source()), ": ", key, " must be ", list));
            }, shown(member)};
}

/// A directory that stands for the node's root.
Key root_key(std::string Site::*member) {
    return {Key::Type::text,
            [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a path in quotes");
                if (!(site.*member).starts_with('/'))
                    throw Error(cat(place(name, node.source()), ": ", key, " must be an absolute path"));
            },
            shown(member)};
}

/// A word, an absolute path, or nothing.
Key place_key(std::string Site::*member, std::string_view word, const char* meaning) {
    return {Key::Type::text, [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a text in quotes");
                const std::string& text = site.*member;
                bool absolute = text.starts_with('/') || text.starts_with("%h/");
                if (!absolute && !text.empty() && text != word)
                    throw Error(cat(place(name, node.source()), ": ", key, " must be ", meaning));
            }, shown(member)};
}

/// Less than `least` bytes would be a pull that cannot be.
void set_pull_memory(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    constexpr uint64_t least = 48ULL << 20;
    size_key(&Site::pull_memory).set(site, node, key, name);
    if (site.pull_memory < least) throw Error(cat(place(name, node.source()), ": ", key, " must be at least \"48M\""));
}

/// Folders, whole: a relative one would mean another at each start.
Key folders_key(std::vector<std::string> Site::*member) {
    Key out = names_key(member);
    out.set = [member, names = out.set](Site& site, const toml::node& node, const std::string& key,
                                        const std::string& name) {
        names(site, node, key, name);
        for (std::string& folder : site.*member) {
            if (folder == "*") continue;
            if (!folder.starts_with('/'))
                throw Error(cat(place(name, node.source()), ": ", key, ": \"", printable(folder, 4096),
                                "\" is no absolute path (\"*\" is every path)"));
            folder = normalised(folder);
        }
    };
    return out;
}

/// Keys and sections that there are.
void set_locked(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    names_key(&Site::locked).set(site, node, key, name);
    for (const std::string& lock : site.locked) {
        bool known = std::any_of(keys().begin(), keys().end(), [&](const auto& entry) {
            return entry.first == lock || entry.first.starts_with(lock + ".");
        });
        if (!known)
            throw Error(
                cat(place(name, node.source()), ": ", key, ": there is no key or section \"", printable(lock), "\""));
    }
}

}  // namespace

const std::map<std::string, Key>& keys() {
    static const std::map<std::string, Key> all = {
        {"store.path", text_key(&Site::store_path)},
        {"store.pull", word_key(&Site::pull_policy, {"newer", "missing", "always", "never"})},
        {"store.compression", word_key(&Site::compression, {"zstd", "lz4", "gzip", "none"})},
        {"store.compression_level", number_key(&Site::compression_level, 0, 22)},
        {"network.connections", number_key(&Site::connections, 1, 64)},
        {"data.path", text_key(&Site::data_path)},
        {"network.proxy", text_key(&Site::proxy)},
        {"network.no_proxy", text_key(&Site::no_proxy)},
        {"slurm.resolve_tags", word_key(&Site::resolve_tags, {"submit", "nodes"})},
        {"slurm.client_in_container", flag_key(&Site::client_in_container)},
        {"slurm.client_files", names_key(&Site::client_files)},
        {"defaults.remap_root", flag_key(&Site::remap_root)},
        {"defaults.mount_home", flag_key(&Site::mount_home)},
        {"defaults.writable", flag_key(&Site::writable)},
        {"defaults.entrypoint", flag_key(&Site::entrypoint)},
        {"defaults.container_scope", word_key(&Site::container_scope, {"global", "job"})},
        {"limits.tmpfs_size", size_key(&Site::tmpfs_size)},
        {"limits.store_size", size_key(&Site::store_size)},
        {"security.seccomp", word_key(&Site::seccomp, {"default", "off"})},
        {"security.seccomp_allow", names_key(&Site::seccomp_allow)},
        {"security.seccomp_deny", names_key(&Site::seccomp_deny)},
        {"limits.store_age", number_key(&Site::store_age, 0, 36500, " days")},
        {"limits.pull_memory", {Key::Type::text, set_pull_memory, shown_size(&Site::pull_memory)}},
        {"limits.image_size", size_key(&Site::image_size)},
        {"limits.pull_time", number_key(&Site::pull_seconds, 0, 7 * 24 * 3600, " seconds")},
        {"policy.registries_allowed", names_key(&Site::registries_allowed)},
        {"policy.registries_denied", names_key(&Site::registries_denied)},
        {"policy.digest_required", flag_key(&Site::digest_required)},
        {"policy.mount_sources", folders_key(&Site::mount_sources)},
        {"policy.image_paths", folders_key(&Site::image_paths)},
        {"policy.remap_root", names_key(&Site::root_users)},
        {"policy.writable", names_key(&Site::writable_users)},
        {"policy.locked", {Key::Type::text, set_locked, shown(&Site::locked)}},
        {"devices.nvidia", word_key(&Site::nvidia, {"auto", "required", "off"})},
        {"devices.driver_root", root_key(&Site::driver_root)},
        {"devices.device_root", root_key(&Site::device_root)},
        {"devices.rdma", word_key(&Site::rdma, {"auto", "all", "off"})},
        {"devices.rdma_userspace", flag_key(&Site::rdma_userspace)},
        {"devices.cdi", names_key(&Site::cdi)},
        {"devices.cdi_folders", names_key(&Site::cdi_folders)},
        {"events.log", place_key(&Site::event_log, "syslog", "an absolute path, \"syslog\" or \"\"")},
        {"events.counters", place_key(&Site::counter_folder, "", "an absolute path of a folder or \"\"")},
        {"hooks.folder", root_key(&Site::hook_folder)},
        {"hooks.timeout", number_key(&Site::hook_seconds, 1, 600, " seconds")},
        {"mount.cache_size", size_key(&Site::cache_bytes)},
        {"security.mask", flag_key(&Site::mask)},
        {"mount.volumes", word_key(&Site::volumes, {"none", "tmpfs"})},
        {"mount.engine", word_key(&Site::mount_engine, {"berth", "squashfuse", "unpack"})},
        {"mount.threads", number_key(&Site::server_threads, 0, 256)},
        {"mount.busy_poll", number_key(&Site::busy_poll, 0, 1000, " microseconds")},
    };
    return all;
}

std::string quoted(const std::string& text) {
    std::string out = "\"";
    // After printable() there are no control characters and nothing but UTF-8.
    for (char c : printable(text, text.size())) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

}  // namespace berth::plan
