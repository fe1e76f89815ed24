#include "runtime/plan/site_file.hh"

#include <algorithm>
#include <functional>
#include <map>

namespace {
/// toml++ 3.3 has assertions that a malformed file can break, as `[=` does.
struct BrokenAssertion {};
[[noreturn]] void refuse_assertion() {
    throw BrokenAssertion();
}
}  // namespace
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : refuse_assertion())
#include <toml++/toml.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/names.hh"
#include "runtime/plan/toml_text.hh"

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

/// Names with blanks or commas between them.
Key names_key(std::vector<std::string> Site::*member) {
    return {Key::Type::text, [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                std::string text = value_of<std::string>(node, key, name, "names in one pair of quotes, with blanks between them");
                std::replace(text.begin(), text.end(), ',', ' ');
                (site.*member).clear();
                for (const std::string& word : split(text, ' '))
                    if (!word.empty()) (site.*member).push_back(word);
            }};
}

/// `unit` is a word behind the limits, with its space, or nothing.
Key number_key(unsigned Site::*member, int64_t least, int64_t most, const char* unit = "") {
    return {Key::Type::number, [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                auto number = value_of<int64_t>(node, key, name, "a number");
                if (number < least || number > most) throw Error(cat(place(name, node.source()), ": ", key, " must lie between ", least, " and ", most, unit));
                site.*member = static_cast<unsigned>(number);
            }};
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
            }};
}

/// A directory that stands for the node's root.
Key root_key(std::string Site::*member) {
    return {Key::Type::text, [member](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a path in quotes");
                if (!(site.*member).starts_with('/')) throw Error(cat(place(name, node.source()), ": ", key, " must be an absolute path"));
            }};
}

/// A word, an absolute path, or nothing.
Key place_key(std::string Site::*member, std::string_view word, const char* meaning) {
    return {Key::Type::text, [=](Site& site, const toml::node& node, const std::string& key, const std::string& name) {
                site.*member = value_of<std::string>(node, key, name, "a text in quotes");
                const std::string& text = site.*member;
                bool absolute = text.starts_with('/') || text.starts_with("%h/");
                if (!absolute && !text.empty() && text != word) throw Error(cat(place(name, node.source()), ": ", key, " must be ", meaning));
            }};
}

/// Less than `least` bytes would be a pull that cannot be.
void set_pull_memory(Site& site, const toml::node& node, const std::string& key, const std::string& name) {
    constexpr uint64_t least = 48ULL << 20;
    size_key(&Site::pull_memory).set(site, node, key, name);
    if (site.pull_memory < least) throw Error(cat(place(name, node.source()), ": ", key, " must be at least \"48M\""));
}

/// Every key of the file but the registries' tables; tests hold conf/berth.conf to this list.
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
        {"limits.pull_memory", {Key::Type::text, set_pull_memory}},
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
        {"mount.engine", word_key(&Site::mount_engine, {"berth", "unpack"})},
        {"mount.threads", number_key(&Site::server_threads, 0, 256)},
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

toml::table parse_toml(std::string_view text, const std::string& name) {
    if (!is_ascii(text)) {
        static_cast<void>(toml::parse(with_ascii_only(text), name));
        check_quoted(text, name);
    }
    return toml::parse(text, name);
}

/// The line at whose end the text has become one that breaks an assertion.
size_t broken_line(std::string_view text, const std::string& name) {
    size_t line = 1;
    for (size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1), ++line) try {
            parse_toml(text.substr(0, end), name);
        } catch (const std::runtime_error&) {
            // What is not finished at this line goes on below it.
        } catch (const BrokenAssertion&) {
            break;
        }
    return line;
}

}  // namespace

Site parse_site(std::string_view text, const std::string& name) {
    Site site;
    try {
        toml::table file = parse_toml(text, name);
        for (const auto& [key, value] : file) {
            const toml::table* table = value.as_table();
            if (!table) throw Error(cat(place(name, key.source()), ": unknown key ", printable(key.str()), " outside of a section such as [store]"));
            read_section(site, std::string(key.str()), *table, name);
        }
    } catch (const toml::parse_error& error) {
        // The library's words may hold pieces of the file.
        throw Error(cat(place(name, error.source()), ": ", printable(error.description())));
    } catch (const BrokenAssertion&) {
        throw Error(cat(name, ":", broken_line(text, name), ": this is no TOML: a name, a value or a bracket is missing"));
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
