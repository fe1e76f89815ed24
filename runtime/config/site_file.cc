#include "runtime/config/site_file.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/json_text.hh"
#include "runtime/base/nearest.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_keys.hh"
#include "runtime/config/site_syntax.hh"
#include "runtime/request/names.hh"
#include "runtime/request/unknown_variables.hh"

namespace berth::plan {

namespace {

std::vector<std::string> hosts_of(const toml::node& node, const std::string& key, const std::string& name) {
    const toml::array* list = node.as_array();
    if (!list)
        throw Error(cat(place(name, node.source()), ": ", key,
                        " must be a list of hosts, such as [\"mirror.example.com:5000\"]"));
    std::vector<std::string> out;
    for (const toml::node& entry : *list) {
        out.push_back(lower(value_of<std::string>(entry, key, name, "a list of hosts in quotes")));
        // A registry is a host and a port, everywhere.
        if (out.back().empty() || out.back().find_first_of("/@ ?#") != std::string::npos)
            throw Error(
                cat(place(name, entry.source()), ": ", key, ": \"", printable(out.back()), "\" is no HOST[:PORT]"));
    }
    return out;
}

/// Does `work`; an Error of it is one mistake among others.
template <typename Work>
void attempt(Mistakes& mistakes, Work work) {
    try {
        work();
    } catch (const Error& error) {
        mistakes.emplace_back(error.what());
    }
}

void set_registry_key(RegistrySettings& registry, const toml::key& key, const toml::node& value,
                      const std::string& path, const std::string& name) {
    if (key.str() == "plain_http")
        registry.plain_http = value_of<bool>(value, path, name, "true or false");
    else if (key.str() == "ca")
        registry.ca = value_of<std::string>(value, path, name, "a path in quotes");
    else if (key.str() == "mirror")
        registry.mirrors = hosts_of(value, path, name);
    else
        throw Error(cat(place(name, key.source()), ": unknown key ", path, " (known: plain_http ca mirror)",
                        meant(key.str(), {"plain_http", "ca", "mirror"})));
}

void read_registry(Site& site, const toml::node& node, const std::string& host, const std::string& name,
                   Mistakes& mistakes) {
    RegistrySettings& registry = site.registries[host];
    const toml::table* table = node.as_table();
    if (!table) throw Error(cat(place(name, node.source()), ": registry.\"", printable(host), "\" must be a table"));
    for (const auto& [key, value] : *table) {
        std::string path = cat("registry.\"", printable(host), "\".", printable(key.str()));
        site.origins[path] = {name, value.source().begin.line, {}, false};
        attempt(mistakes, [&, &key = key, &value = value] { set_registry_key(registry, key, value, path, name); });
    }
}

std::vector<std::string> key_names() {
    std::vector<std::string> out;
    for (const auto& [key, meaning] : keys()) out.push_back(key);
    return out;
}

void read_key(Site& site, const std::string& path, const toml::key& key, const toml::node& value,
              const std::string& name) {
    auto found = keys().find(path);
    if (path == "share.rendezvous")
        throw Error(cat(place(name, key.source()), ": share.rendezvous was withdrawn, since an image that had the home "
                        "mounted could send layers of its own making; delete the line: steps of several nodes share "
                        "as before, and for job arrays there is store.shared"));
    if (found == keys().end())
        throw Error(cat(place(name, key.source()), ": unknown key ", path, " (berth.conf(5) has all)",
                        meant(path, key_names())));
    found->second.set(site, value, path, name);
    site.origins[path] = {name, value.source().begin.line, {}, false};
}

void read_section(Site& site, const std::string& section, const toml::table& table, const std::string& name,
                  Mistakes& mistakes) {
    for (const auto& [key, value] : table)
        attempt(mistakes, [&, &key = key, &value = value] {
            // A host may be called as it likes: only what is no table is a key of the section itself.
            if (section == "registry" && (value.is_table() || !keys().contains(cat("registry.", key.str()))))
                read_registry(site, value, std::string(key.str()), name, mistakes);
            else
                read_key(site, cat(section, ".", printable(key.str())), key, value, name);
        });
}

/// The settings, and all that is wrong with them, in the order of the lines.
Site read_site(std::string_view text, const std::string& name, Mistakes& mistakes) {
    Site site;
    toml::table file = parse_toml(text, name, mistakes);
    for (const auto& [key, value] : file)
        attempt(mistakes, [&, &key = key, &value = value] {
            const toml::table* table = value.as_table();
            if (!table)
                throw Error(cat(place(name, key.source()), ": unknown key ", printable(key.str()),
                                " outside of a section such as [store] (berth.conf(5) has all)"));
            read_section(site, std::string(key.str()), *table, name, mistakes);
        });
    std::stable_sort(mistakes.begin(), mistakes.end(), [&](const std::string& a, const std::string& b) {
        return position_of(a, name) < position_of(b, name);
    });
    return site;
}

}  // namespace

Site parse_site(std::string_view text, const std::string& name) {
    Mistakes mistakes;
    Site site = read_site(text, name, mistakes);
    if (!mistakes.empty()) throw Error(mistakes.front());
    return site;
}

std::vector<std::string> site_mistakes(std::string_view text, const std::string& name) {
    Mistakes mistakes;
    read_site(text, name, mistakes);
    return mistakes;
}

namespace {
constexpr const char* variable_prefix = "BERTH_";
}

std::string variable_of(const std::string& key) {
    std::string name = variable_prefix;
    for (char c : key) name += c == '.' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return name;
}

namespace {

void set_by_variable(Site& site, const std::string& key, const Key& meaning, const std::string& name,
                     const std::string& value) {
    uint64_t number = 0;
    if (meaning.type == Key::Type::number && !parse_number(value, INT64_MAX, number))
        throw Error(cat(name, "=", printable(value), " is no number"));
    if (meaning.type == Key::Type::flag)
        meaning.set(site, toml::value<bool>(parse_bool(value, name)), key, name);
    else if (meaning.type == Key::Type::number)
        meaning.set(site, toml::value<int64_t>(static_cast<int64_t>(number)), key, name);
    else
        meaning.set(site, toml::value<std::string>(value), key, name);
}

/// Whether a list of keys and sections has `key`.
bool names_key(const std::vector<std::string>& list, const std::string& key) {
    return std::ranges::any_of(
        list, [&](const std::string& entry) { return key == entry || key.starts_with(entry + "."); });
}

void refuse_locked(const Site& site, const std::string& key, const Key& meaning, const std::string& name) {
    if (key.starts_with("policy.") || key.starts_with("site."))
        throw Error(cat(name, ": ", key, " can be set by the site's file only; unset the variable"));
    if (is_locked(site, key))
        throw Error(cat(name, ": ", key, " is locked by ", site.origins.at("policy.locked").text(),
                        " (policy.locked); unset the variable"));
    if (meaning.locked && !names_key(site.policy.unlocked, key))
        throw Error(cat(name, ": ", key, " is locked unless the site's file lists it in policy.unlocked; unset the ",
                        "variable"));
}

}  // namespace

bool is_locked(const Site& site, const std::string& key) { return names_key(site.policy.locked, key); }

void apply_environment(Site& site, const std::vector<std::string>& environment, Authority authority) {
    // Nearly always none: to look for each key in each variable would take longer than the plan of a start.
    std::vector<std::string_view> candidates;
    for (const std::string& text : environment)
        if (text.starts_with(variable_prefix)) candidates.push_back(text);
    if (candidates.empty()) return;
    for (const auto& [key, meaning] : keys()) {
        std::string name = variable_of(key), start = name + "=";
        for (std::string_view text : candidates) {
            if (!text.starts_with(start)) continue;
            std::string before = meaning.show(site);
            set_by_variable(site, key, meaning, name, std::string(text.substr(start.size())));
            // What says the same as the file is no contradiction.
            if (meaning.show(site) == before) continue;
            if (authority == Authority::user) refuse_locked(site, key, meaning, name);
            bool user = authority == Authority::user;
            site.origins[key] = {{}, 0, user ? name : "plugstack.conf", user};
        }
    }
}

std::vector<std::string> unknown_key_variables(const std::vector<std::string>& environment) {
    std::vector<std::string> out, known;
    for (const std::string& text : environment) {
        std::string name = text.substr(0, text.find('='));
        if (!is_of_section(name) || is_known_variable(name) || text.ends_with('=')) continue;
        if (known.empty())
            for (const std::string& key : key_names()) known.push_back(variable_of(key));
        if (std::find(known.begin(), known.end(), name) == known.end()) out.push_back(with_meant(name, known));
    }
    return out;
}

bool Site::set_by_user(const std::string& key) const {
    auto found = origins.find(key);
    return found != origins.end() && found->second.by_user;
}

std::string Site::Origin::text() const {
    return !variable.empty() ? variable : file.empty() ? "default" : cat(file, ":", line);
}

std::vector<ShownKey> shown_site(const Site& site) {
    std::vector<ShownKey> out;
    auto add = [&](const std::string& key, const std::string& value) {
        auto origin = site.origins.find(key);
        out.push_back({key, value, origin == site.origins.end() ? Site::Origin() : origin->second});
    };
    for (const auto& [key, meaning] : keys()) add(key, meaning.show(site));
    for (const auto& [host, registry] : site.registries) {
        std::string table = cat("registry.\"", printable(host), "\".");
        std::string mirrors;
        for (const std::string& mirror : registry.mirrors)
            mirrors += cat(mirrors.empty() ? "" : ", ", json_text(mirror));
        add(table + "ca", json_text(registry.ca));
        add(table + "mirror", cat("[", mirrors, "]"));
        add(table + "plain_http", registry.plain_http ? "true" : "false");
    }
    return out;
}

std::string shown_mistake(const std::string& message, std::string_view text, const std::string& name) {
    Position at = position_of(message, name);
    std::vector<std::string> lines = split(text, '\n');
    if (at.line == 0 || at.line > lines.size()) return message;
    const std::string& line = lines[at.line - 1];
    return with_caret(message, line, std::min(at.column - 1, line.size()));
}

namespace {

/// `path` with what stands for each of its %X; nothing when one of them has no value here.
std::optional<std::string> expanded(const std::string& path,
                                    const std::map<char, std::optional<std::string>>& values) {
    std::string out;
    for (size_t at = 0; at < path.size(); ++at) {
        auto value = path[at] == '%' && at + 1 < path.size() ? values.find(path[at + 1]) : values.end();
        if (value == values.end()) {
            out += path[at];
            continue;
        }
        if (!value->second) return std::nullopt;
        out += *value->second;
        ++at;
    }
    return out;
}

std::map<char, std::optional<std::string>> values_of(const Caller& caller) {
    return {{'U', std::to_string(caller.uid)}, {'u', caller.user}, {'h', caller.home}, {'%', "%"}};
}

}  // namespace

std::string path_for(const std::string& path, const Caller& caller) { return *expanded(path, values_of(caller)); }

std::optional<std::string> path_for(const std::string& path, const Caller& caller, const Job& job) {
    auto values = values_of(caller);
    size_t dot = job.id.find('.');
    bool in_job = dot != std::string::npos;
    values['j'] = in_job ? std::optional(job.id.substr(0, dot)) : std::nullopt;
    values['s'] = in_job ? std::optional(job.id.substr(dot + 1)) : std::nullopt;
    values['n'] = job.node.empty() ? std::nullopt : std::optional(job.node);
    return expanded(path, values);
}

}  // namespace berth::plan
