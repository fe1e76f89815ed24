#include "runtime/migrate/registries.hh"

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/json_text.hh"
#include "runtime/base/text.hh"
#include "runtime/config/toml_entries.hh"

namespace berth::migrate {

namespace {

using plan::TomlEntry;

constexpr const char* same_names = "a mirror has the same names in Berth: give it a host of its own without a path";
constexpr const char* plain = "Berth speaks to it without TLS; where it has TLS, write its authority as ca instead";

/// As people would write it: "registry.mirror.location = "mirror.example"".
std::string shown(const TomlEntry& entry) {
    std::string out;
    for (const std::string& part : entry.path)
        if (part.find_first_not_of("0123456789") != std::string::npos) out += cat(out.empty() ? "" : ".", part);
    for (const std::string& value : entry.values) out += cat(&value == &entry.values[0] ? " = " : ", ", value);
    return out;
}

/// Whether a text is HOST[:PORT], and nothing behind it.
bool is_host(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
               c == '_' || c == ':' || c == '[' || c == ']';
    });
}

class Decider {
  public:
    Decider(Draft& draft, const std::string& file) : draft_(draft), file_(file) {}

    Place place(const TomlEntry& entry) const { return {file_, entry.line, shown(entry)}; }
    void report(Fate fate, const TomlEntry& entry, const std::string& why) {
        draft_.report({fate, place(entry), {}, why});
    }

    static std::string key(const std::string& host, const char* name) {
        return cat("registry.", json_text(host), ".", name);
    }

    /// Sets a key of a registry's table, and tells it. `why`: how things differ.
    void set(const Place& place, const std::string& host, const char* name, const std::string& value,
             const std::string& why = {}) {
        answered(place, key(host, name), is_host(host) ? draft_.set(key(host, name), {value}, place) : Answer::refused,
                 why);
    }
    void add_mirror(const Place& place, const std::string& host, const std::string& mirror, const std::string& why) {
        bool plain_hosts = is_host(host) && is_host(mirror);
        answered(place, key(host, "mirror"),
                 plain_hosts ? draft_.add_item(key(host, "mirror"), mirror, place) : Answer::refused, why);
    }
    void deny(const Place& place, const std::string& what) {
        bool word = what.find_first_of(" \t*") == what.npos;
        answered(place, "policy.registries_denied",
                 word ? draft_.add_word("policy.registries_denied", what, place) : Answer::refused, {});
    }

  private:
    void answered(const Place& place, const std::string& name, Answer answer, const std::string& why) {
        if (answer == Answer::taken)
            return draft_.report({why.empty() ? Fate::kept : Fate::changed, place, draft_.shown(name), why});
        std::string reason = answer == Answer::other
                                 ? cat("berth.conf has one value for it, and ", draft_.origin(name), " counts")
                                 : cat("no value for ", name, " of berth.conf; write it by hand");
        draft_.report({Fate::unplaced, place, {}, reason});
    }

    Draft& draft_;
    const std::string& file_;
};

/// The entries of a file; nothing, and a finding, for what cannot be read.
std::optional<std::vector<TomlEntry>> entries_of(Draft& draft, const std::string& file, const std::string& text) {
    try {
        return plan::toml_entries(text, file);
    } catch (const Error& error) {
        draft.report({Fate::unplaced, {file, 0, "file"}, {}, cat("it is no TOML: ", printable(error.what(), 1024))});
        return std::nullopt;
    }
}

/// One [[registry]] of podman's, or a mirror in it.
struct Remote {
    std::map<std::string, const TomlEntry*> settings;
    std::string text(const std::string& name) const {
        auto found = settings.find(name);
        return found == settings.end() || found->second->values.empty() ? std::string() : found->second->values[0];
    }
    const TomlEntry* entry(const std::string& name) const {
        auto found = settings.find(name);
        return found == settings.end() ? nullptr : found->second;
    }
    bool is(const std::string& name) const { return text(name) == "true"; }
};
struct PodmanRegistry {
    Remote own;
    std::map<size_t, Remote> mirrors;
};

class PodmanFile {
  public:
    PodmanFile(Draft& draft, const std::string& file) : decide_(draft, file) {}

    void run(const std::vector<TomlEntry>& entries) {
        for (const TomlEntry& entry : entries) take(entry);
        for (auto& [number, registry] : registries_) decide(registry);
        if (aliases_ > 0)
            decide_.report(Fate::changed, *first_alias_,
                           cat("Berth has no aliases: ", aliases_,
                               " short names lead elsewhere with podman; images without a registry are Docker Hub's"));
    }

  private:
    void take(const TomlEntry& entry) {
        const std::vector<std::string>& path = entry.path;
        uint64_t number = 0, mirror = 0;
        bool of_registry = path.size() >= 3 && path[0] == "registry" && parse_number(path[1], 100'000, number);
        if (of_registry && path.size() == 3)
            registries_[number].own.settings[path[2]] = &entry;
        else if (of_registry && path.size() == 5 && path[2] == "mirror" && parse_number(path[3], 100'000, mirror))
            registries_[number].mirrors[mirror].settings[path[4]] = &entry;
        else if (path[0] == "aliases" && path.size() == 2)
            take_alias(entry);
        else if (path.size() == 3 && path[0] == "registries" && path[2] == "registries")
            take_version_1(entry, path[1]);
        else
            take_global(entry);
    }

    /// Enroot and Berth read a name without a registry as Docker does.
    void take_search(const TomlEntry& entry) {
        bool hub = entry.values.empty() || (entry.values.size() == 1 && entry.values[0] == "docker.io");
        decide_.report(hub ? Fate::kept : Fate::changed, entry,
                       hub ? "" : "an image without a registry is Docker Hub's, as with Enroot");
    }

    void take_alias(const TomlEntry& entry) {
        std::string value = entry.values.empty() ? "" : entry.values[0];
        std::string name = entry.path[1];
        if (name.find('/') == name.npos) name = "library/" + name;
        if (value.empty() || value == "docker.io/" + name) return;
        if (aliases_++ == 0) first_alias_ = &entry;
    }

    void take_version_1(const TomlEntry& entry, const std::string& list) {
        if (list == "search") return take_search(entry);
        for (const std::string& host : entry.values)
            if (list == "insecure")
                decide_.set(decide_.place(entry), host, "plain_http", "true", plain);
            else if (list == "block")
                decide_.deny(decide_.place(entry), host);
            else
                return take_global(entry);
    }

    void take_global(const TomlEntry& entry) {
        const std::string& name = entry.path[0];
        if (name == "unqualified-search-registries") return take_search(entry);
        if (name == "short-name-mode") return decide_.report(Fate::kept, entry, "no image has two meanings in Berth");
        bool usual = entry.values == std::vector<std::string>{"containers-auth.json"};
        if (name == "credential-helpers" && usual) return decide_.report(Fate::kept, entry, "");
        if (name == "credential-helpers")
            return decide_.report(Fate::unplaced, entry,
                                  "a user's own file says it: credsStore of ~/.docker/config.json");
        decide_.report(Fate::unplaced, entry, "berth.conf has nothing like it");
    }

    void decide(const PodmanRegistry& registry) {
        std::string location = registry.own.text("location"), prefix = registry.own.text("prefix");
        if (prefix.empty()) prefix = location;
        for (const auto& [name, entry] : registry.own.settings) {
            if (name == "blocked" && registry.own.is(name))
                decide_.deny(decide_.place(*entry), prefix);
            else if (name == "insecure" && registry.own.is(name))
                set_plain(*entry, location.empty() ? prefix : location);
            else if (name == "location" && prefix != location)
                decide_location(*entry, prefix, location);
            else if (name == "mirror-by-digest-only" && registry.own.is(name))
                decide_.report(Fate::changed, *entry, "Berth asks mirrors for tags too");
            else if (name != "blocked" && name != "insecure" && name != "location" && name != "prefix" &&
                     name != "mirror-by-digest-only" && name != "mirror")
                decide_.report(Fate::unplaced, *entry, "berth.conf has nothing like it");
        }
        for (const auto& [number, mirror] : registry.mirrors) decide_mirror(prefix, mirror);
    }

    void set_plain(const TomlEntry& entry, const std::string& location) {
        decide_.set(decide_.place(entry), location.substr(0, location.find('/')), "plain_http", "true", plain);
    }

    void decide_location(const TomlEntry& entry, const std::string& prefix, const std::string& location) {
        if (!is_host(prefix) || !is_host(location)) return decide_.report(Fate::unplaced, entry, same_names);
        decide_.add_mirror(decide_.place(entry), prefix, location,
                           cat(prefix, " itself is asked as well, when its mirror does not have an image"));
    }

    void decide_mirror(const std::string& prefix, const Remote& mirror) {
        std::string location = mirror.text("location");
        if (const TomlEntry* entry = mirror.entry("location"); entry && is_host(prefix) && is_host(location)) {
            std::string when = mirror.text("pull-from-mirror");
            decide_.add_mirror(decide_.place(*entry), prefix, location,
                               when == "digest-only" || when == "tag-only" ? "Berth asks it for tags and digests" : "");
        } else if (entry) {
            decide_.report(Fate::unplaced, *entry, same_names);
            return;
        }
        for (const auto& [name, entry] : mirror.settings)
            if (name == "insecure" && mirror.is(name))
                set_plain(*entry, location);
            else if (name != "insecure" && name != "location" && name != "pull-from-mirror")
                decide_.report(Fate::unplaced, *entry, "berth.conf has nothing like it");
    }

    Decider decide_;
    std::map<size_t, PodmanRegistry> registries_;
    size_t aliases_ = 0;
    const TomlEntry* first_alias_ = nullptr;
};

/// "https" and "mirror.example:5000" of an address; a path that is no API's is left in `path`.
struct Address {
    std::string scheme, host, path;
};
Address address_of(std::string_view text) {
    Address out;
    size_t colon = text.find("://");
    out.scheme = colon == text.npos ? "https" : lower(text.substr(0, colon));
    if (colon != text.npos) text.remove_prefix(colon + 3);
    out.host = text.substr(0, text.find('/'));
    out.path = text.substr(std::min(out.host.size(), text.size()));
    while (out.path.ends_with('/')) out.path.pop_back();
    return out;
}

/// HOST:PORT, which containerd also writes as HOST_PORT_.
std::string host_of_folder(std::string folder) {
    size_t before = folder.size() < 2 ? folder.npos : folder.rfind('_', folder.size() - 2);
    if (!folder.ends_with('_') || before == folder.npos) return folder;
    std::string port = folder.substr(before + 1, folder.size() - before - 2);
    bool number = !port.empty() && port.find_first_not_of("0123456789") == port.npos;
    return number ? cat(folder.substr(0, before), ":", port) : folder;
}

std::string folder_of(const std::string& file) {
    return file.substr(0, file.rfind('/'));
}
std::string name_of(const std::string& file) {
    return file.substr(file.rfind('/') + 1);
}
std::string host_of_file(const std::string& file) {
    return host_of_folder(name_of(folder_of(file)));
}

bool is_of(const std::string& host, const std::string& address) {
    return host == address || (host == "docker.io" && address == "registry-1.docker.io");
}

class ContainerdFile {
  public:
    ContainerdFile(Draft& draft, const std::string& file)
        : decide_(draft, file), folder_(folder_of(file)), host_(host_of_file(file)) {}

    void run(const std::vector<TomlEntry>& entries) {
        for (const TomlEntry& entry : entries)
            if (host_ == "_default")
                decide_.report(Fate::unplaced, entry, "berth.conf has a table for each registry by its name");
            else if (entry.path[0] == "host" && entry.path.size() >= 3)
                (add(entry.path[1])).settings.push_back(&entry);
            else if (entry.path[0] == "host" && entry.path.size() == 2)
                add(entry.path[1]).first = &entry;
            else if (entry.path[0] == "server" && !entry.values.empty())
                server_ = &entry;
            else
                own_.push_back(&entry);
        for (const TomlEntry* entry : own_) decide_setting(*entry, entry->path.back(), host_);
        for (const Host& one : hosts_) decide(one);
        if (server_) decide_server(*server_);
    }

  private:
    struct Host {
        std::string address;
        const TomlEntry* first = nullptr;
        std::vector<const TomlEntry*> settings = {};
    };

    /// In the order of the file, in which they are asked.
    Host& add(const std::string& address) {
        auto found = std::ranges::find(hosts_, address, &Host::address);
        return found == hosts_.end() ? hosts_.emplace_back(Host{address}) : *found;
    }

    void decide(const Host& one) {
        const TomlEntry& first = one.first ? *one.first : *one.settings.front();
        Address at = address_of(one.address);
        Place place = decide_.place(first);
        place.what = cat("host.\"", one.address, "\"");
        bool pulls = true;
        for (const TomlEntry* entry : one.settings)
            if (entry->path[2] == "capabilities")
                pulls = std::ranges::find(entry->values, "pull") != entry->values.end();
        if (!pulls) return decide_.report(Fate::kept, first, "it is not for pulls, and Berth does nothing else there");
        if (at.scheme != "http" && at.scheme != "https") return decide_.report(Fate::unplaced, first, same_names);
        if (!at.path.empty()) return decide_.report(Fate::unplaced, first, same_names);
        if (!is_of(host_, at.host)) decide_.add_mirror(place, host_, at.host, "");
        std::string name = is_of(host_, at.host) ? host_ : at.host;
        if (at.scheme == "http") decide_.set(place, name, "plain_http", "true");
        for (const TomlEntry* entry : one.settings)
            if (entry->path[2] != "capabilities") decide_setting(*entry, entry->path[2], name);
    }

    void decide_setting(const TomlEntry& entry, const std::string& name, const std::string& host) {
        bool on = !entry.values.empty() && entry.values[0] == "true";
        if (name == "ca")
            decide_authorities(entry, host);
        else if (name == "skip_verify" && on)
            decide_.report(Fate::unplaced, entry, "Berth verifies every certificate: write its authority as ca");
        else if (name == "client")
            decide_.report(Fate::unplaced, entry, "Berth shows no certificate of its own");
        else if (name == "capabilities" || name == "skip_verify" || name == "override_path" || name == "dial_timeout")
            decide_.report(on && name == "override_path" ? Fate::unplaced : Fate::kept, entry,
                           on && name == "override_path" ? same_names : "");
        else
            decide_.report(Fate::unplaced, entry, "berth.conf has nothing like it");
    }

    /// Berth takes one file, which can have several.
    void decide_authorities(const TomlEntry& entry, const std::string& host) {
        for (const std::string& file : entry.values)
            if (&file == &entry.values[0])
                decide_.set(decide_.place(entry), host, "ca",
                            text_form(file.starts_with('/') ? file : cat(folder_, "/", file)));
            else
                decide_.report(Fate::unplaced, entry, cat("ca is one file: add ", printable(file, 4096), " to it"));
    }

    void decide_server(const TomlEntry& entry) {
        Address at = address_of(entry.values[0]);
        Place place = decide_.place(entry);
        if (!at.path.empty() && at.path != "/v2") return decide_.report(Fate::unplaced, entry, same_names);
        if (!is_of(host_, at.host))
            decide_.add_mirror(place, host_, at.host, cat(host_, " itself is asked after it"));
        else if (at.scheme != "http")
            decide_.report(Fate::kept, entry, "");
        if (at.scheme == "http") decide_.set(place, is_of(host_, at.host) ? host_ : at.host, "plain_http", "true");
    }

    Decider decide_;
    std::string folder_, host_;
    std::vector<Host> hosts_;
    std::vector<const TomlEntry*> own_;
    const TomlEntry* server_ = nullptr;
};

}  // namespace

void decide_registries(Draft& draft, const std::string& file, const std::string& text) {
    if (auto entries = entries_of(draft, file, text)) PodmanFile(draft, file).run(*entries);
}

void decide_hosts(Draft& draft, const std::string& file, const std::string& text) {
    if (auto entries = entries_of(draft, file, text)) ContainerdFile(draft, file).run(*entries);
}

void decide_certificates(Draft& draft, const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        Place place{file, 0, "file"};
        if (file.ends_with(".crt"))
            Decider(draft, file).set(place, host_of_file(file), "ca", text_form(file));
        else if (file.ends_with(".cert") || file.ends_with(".key"))
            draft.report({Fate::unplaced, place, {}, "Berth shows no certificate of its own"});
    }
}

}  // namespace berth::migrate
