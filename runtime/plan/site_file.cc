#include "runtime/plan/site_file.hh"

#include <functional>
#include <map>
#include <toml++/toml.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/names.hh"

namespace berth::plan {

namespace {

/// Where a TOML node stands, for messages: "FILE:LINE:COLUMN".
std::string place(const std::string& name, const toml::source_region& at) { return cat(name, ":", at.begin.line, ":", at.begin.column); }

template <typename T>
T value_of(const toml::node& node, const std::string& key, const std::string& name, const char* type) {
    auto value = node.value_exact<T>();
    if (!value) throw Error(cat(place(name, node.source()), ": ", key, " must be ", type));
    return *value;
}

using Setter = std::function<void(Site&, const toml::node&, const std::string& key, const std::string& name)>;

/// A key of the file: the TOML type of its value, and what it does to the settings.
struct Key {
    enum class Type { text, flag, number };
    Type type;
    Setter set;
};

Key text_key(std::string Site::*member) {
    return {Key::Type::text, [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a text in quotes");
            }};
}

Key flag_key(bool Site::*member) {
    return {Key::Type::flag, [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<bool>(node, key, name, "true or false");
            }};
}

Key size_key(uint64_t Site::*member) {
    return {Key::Type::text, [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text = value_of<std::string>(node, key, name, "a size in quotes, such as \"512M\"");
                site.*member = parse_size(text, cat(place(name, node.source()), ": ", key));
            }};
}

void set_threads(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    auto count = value_of<int64_t>(node, key, name, "a number");
    if (count < 0 || count > 256) throw Error(cat(place(name, node.source()), ": ", key, " must lie between 0 and 256"));
    site.server_threads = static_cast<unsigned>(count);
}

void set_store_age(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    auto days = value_of<int64_t>(node, key, name, "a number of days");
    if (days < 0 || days > 36500) throw Error(cat(place(name, node.source()), ": ", key, " must lie between 0 and 36500 days"));
    site.store_age = static_cast<unsigned>(days);
}

void set_policy(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    site.pull_policy = value_of<std::string>(node, key, name, "a text in quotes");
    for (const char* known : {"newer", "missing", "always", "never"})
        if (site.pull_policy == known) return;
    throw Error(cat(place(name, node.source()), ": ", key, " must be newer, missing, always or never"));
}

/// Every key of the file but the registries' tables; tests hold conf/berth.conf to this list.
const std::map<std::string, Key>& keys() {
    static const std::map<std::string, Key> all = {
        {"store.path", text_key(&Site::store_path)},
        {"store.pull", {Key::Type::text, set_policy}},
        {"data.path", text_key(&Site::data_path)},
        {"network.proxy", text_key(&Site::proxy)},
        {"network.no_proxy", text_key(&Site::no_proxy)},
        {"defaults.remap_root", flag_key(&Site::remap_root)},
        {"defaults.mount_home", flag_key(&Site::mount_home)},
        {"defaults.writable", flag_key(&Site::writable)},
        {"limits.tmpfs_size", size_key(&Site::tmpfs_size)},
        {"limits.store_size", size_key(&Site::store_size)},
        {"limits.store_age", {Key::Type::number, set_store_age}},
        {"mount.cache_size", size_key(&Site::cache_bytes)},
        {"mount.threads", {Key::Type::number, set_threads}},
    };
    return all;
}

std::vector<std::string> hosts_of(const toml::node& node, const std::string& key, const std::string& name) {
    const toml::array* list = node.as_array();
    if (!list) throw Error(cat(place(name, node.source()), ": ", key, " must be a list of hosts, such as [\"mirror.example.com:5000\"]"));
    std::vector<std::string> out;
    for (const toml::node& entry : *list) {
        out.push_back(lower(value_of<std::string>(entry, key, name, "a list of hosts in quotes")));
        // A registry is a host and a port, everywhere.
        if (out.back().empty() || out.back().find_first_of("/@ ?#") != std::string::npos)
            throw Error(cat(place(name, entry.source()), ": ", key, ": \"", printable(out.back()), "\" is no HOST[:PORT]"));
    }
    return out;
}

Site::Registry registry_of(const toml::node& node, const std::string& host, const std::string& name) {
    Site::Registry registry;
    const toml::table* table = node.as_table();
    if (!table) throw Error(cat(place(name, node.source()), ": registry.\"", printable(host), "\" must be a table"));
    for (const auto& [key, value] : *table) {
        std::string path = cat("registry.\"", printable(host), "\".", printable(key.str()));
        if (key.str() == "plain_http")
            registry.plain_http = value_of<bool>(value, path, name, "true or false");
        else if (key.str() == "ca")
            registry.ca = value_of<std::string>(value, path, name, "a path in quotes");
        else if (key.str() == "mirror")
            registry.mirrors = hosts_of(value, path, name);
        else
            throw Error(cat(place(name, key.source()), ": unknown key ", path, " (known: plain_http ca mirror)"));
    }
    return registry;
}

void read_section(Site& site, const std::string& section, const toml::table& table, const std::string& name) {
    for (const auto& [key, value] : table) {
        std::string path = cat(section, ".", printable(key.str()));
        if (section == "registry") {
            site.registries[std::string(key.str())] = registry_of(value, std::string(key.str()), name);
            continue;
        }
        auto found = keys().find(path);
        if (found == keys().end()) throw Error(cat(place(name, key.source()), ": unknown key ", path, " (the known ones are in the commented file that comes with berth)"));
        found->second.set(site, value, path, name);
    }
}

}  // namespace

Site parse_site(std::string_view text, const std::string& name) {
    Site site;
    try {
        toml::table file = toml::parse(text, name);
        for (const auto& [key, value] : file) {
            const toml::table* table = value.as_table();
            if (!table) throw Error(cat(place(name, key.source()), ": unknown key ", printable(key.str()), " outside of a section such as [store]"));
            read_section(site, std::string(key.str()), *table, name);
        }
    } catch (const toml::parse_error& error) {
        throw Error(cat(place(name, error.source()), ": ", error.description()));
    }
    return site;
}

void apply_environment(Site& site, const std::vector<std::string>& environment) {
    for (const auto& [key, meaning] : keys()) {
        std::string name = "BERTH_";
        for (char c : key) name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
        for (const std::string& text : environment) {
            if (!text.starts_with(name + "=")) continue;
            std::string value = text.substr(name.size() + 1);
            uint64_t number = 0;
            if (meaning.type == Key::Type::number && !parse_number(value, INT64_MAX, number)) throw Error(cat(name, "=", printable(value), " is no number"));
            if (meaning.type == Key::Type::flag)
                meaning.set(site, toml::value<bool>(parse_bool(value, name)), key, name);
            else if (meaning.type == Key::Type::number)
                meaning.set(site, toml::value<int64_t>(static_cast<int64_t>(number)), key, name);
            else
                meaning.set(site, toml::value<std::string>(value), key, name);
        }
    }
}

uint64_t parse_size(std::string_view text, std::string_view setting) {
    constexpr std::string_view units = "KMGT";
    std::string_view digits = trimmed(text);
    unsigned shift = 0;
    if (size_t unit = digits.empty() ? std::string_view::npos : units.find(digits.back()); unit != std::string_view::npos) {
        shift = 10 * (static_cast<unsigned>(unit) + 1);
        digits.remove_suffix(1);
    }
    uint64_t number = 0;
    if (!parse_number(digits, UINT64_MAX >> (shift + 1), number)) throw Error(cat(setting, ": '", printable(text), "' is no size (write a number with K, M, G or T)"));
    return number << shift;
}

std::string path_for(const std::string& path, const Caller& caller) {
    std::string out;
    for (size_t at = 0; at < path.size(); ++at) {
        char next = path[at] == '%' && at + 1 < path.size() ? path[at + 1] : '\0';
        if (next == 'U' || next == 'u' || next == 'h' || next == '%') {
            out += next == 'U' ? std::to_string(caller.uid) : next == 'u' ? caller.user : next == 'h' ? caller.home : "%";
            ++at;
        } else {
            out += path[at];
        }
    }
    return out;
}

}  // namespace berth::plan
