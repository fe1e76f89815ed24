#include "runtime/config/environment_file.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/config/site_keys.hh"
#include "runtime/config/site_syntax.hh"
#include "runtime/config/toml_entries.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

constexpr size_t most_levels = 10;
constexpr size_t most_files = 64;

/// The keys whose value is an option's.
struct FileKey {
    std::string_view key;
    const char* option;
};
constexpr FileKey text_keys[] = {
    {"image", "container-image"}, {"workdir", "container-workdir"}, {"name", "container-name"}};
constexpr FileKey choice_keys[] = {{"writable", "container-writable"},
                                   {"entrypoint", "container-entrypoint"},
                                   {"mount_home", "container-mount-home"},
                                   {"remap_root", "container-remap-root"}};

/// The TOML of one file into its values.
class Reader {
  public:
    explicit Reader(const std::string& path) : path_(path) {}

    EnvironmentFile read(const toml::table& file) {
        for (const auto& [key, value] : file) take(std::string(key.str()), value);
        return std::move(out_);
    }

  private:
    void take(const std::string& key, const toml::node& value) {
        for (const FileKey& one : text_keys)
            if (one.key == key) return set_text(one, value);
        for (const FileKey& one : choice_keys)
            if (one.key == key) {
                out_.choices[one.option] = wanted<bool>(value, key, "true or false");
                return;
            }
        if (key == "base" || key == "base_environment")
            take_list(out_.bases, value, key, true);
        else if (key == "mounts")
            take_list(out_.mounts, value, key, false);
        else if (key == "devices")
            take_list(out_.devices, value, key, false);
        else if (key == "env")
            take_variables(value);
        else
            take_other(key, value);
    }

    template <typename T>
    T wanted(const toml::node& value, const std::string& key, const char* type) const {
        return value_of<T>(value, key, path_, type);
    }

    FileText text_of(const toml::node& value, const std::string& key) const {
        FileText out{wanted<std::string>(value, key, "a text in quotes"), place(path_, value.source())};
        if (out.text.find('\0') != out.text.npos) throw Error(cat(out.place, ": ", key, " holds a NUL byte"));
        return out;
    }

    /// An empty text of an EDF says nothing.
    void set_text(const FileKey& one, const toml::node& value) {
        FileText text = text_of(value, std::string(one.key));
        if (!text.text.empty()) out_.texts[one.option] = std::move(text);
    }

    void take_list(std::vector<FileText>& list, const toml::node& value, const std::string& key, bool may_be_text) {
        const toml::array* entries = value.as_array();
        if (entries == nullptr && may_be_text) return add(list, text_of(value, key));
        if (entries == nullptr)
            throw Error(cat(place(path_, value.source()), ": ", key, " must be a list of texts in quotes"));
        for (const toml::node& entry : *entries) add(list, text_of(entry, key));
    }

    static void add(std::vector<FileText>& list, FileText text) {
        if (!text.text.empty()) list.push_back(std::move(text));
    }

    void take_variables(const toml::node& value) {
        const toml::table* table = value.as_table();
        if (table == nullptr) throw Error(cat(place(path_, value.source()), ": env must be a table"));
        for (const auto& [name, text] : *table) {
            std::string key = cat("env.", printable(name.str()));
            FileText& variable = out_.variables[std::string(name.str())] = text_of(text, key);
            if (!is_variable_name(name.str())) throw Error(cat(variable.place, ": ", key, " is no variable name"));
        }
    }

    /// Of a table all that is in it. Hooks of Enroot's kind see annotations.com.hooks.cxi.enabled as a variable.
    void take_other(const std::string& key, const toml::node& value) {
        const toml::table* table = value.as_table();
        if (table != nullptr && !table->empty()) {
            for (const auto& [name, entry] : *table) take_other(cat(key, ".", name.str()), entry);
            return;
        }
        constexpr std::string_view annotations = "annotations.", of_hooks = "annotations.com.hooks.";
        std::string name = "OCI_ANNOTATION_";
        if (key.starts_with(of_hooks))
            for (char c : key.substr(annotations.size())) name += c == '.' ? "__" : std::string(1, c);
        if (!key.starts_with(of_hooks) || !value.is_string() || !is_variable_name(name))
            return out_.unknown.push_back(printable(key));
        out_.variables.emplace(name, text_of(value, printable(key)));
    }

    const std::string& path_;
    EnvironmentFile out_;
};

/// Of a value that is looked up on the node: throws Error for what could not be there either.
void check_braces(std::string_view text) {
    static_cast<void>(expanded(text, [](const std::string&) { return std::string("set"); }));
}

/// What is wrong with a value, without the option's name in front.
std::string reason(const Error& error, std::string_view option) {
    std::string_view text = error.what();
    std::string start = cat("--", option, ": ");
    return std::string(text.starts_with(start) ? text.substr(start.size()) : text);
}

/// Layers the files of an environment, and makes a definition of them.
class Resolver {
  public:
    Resolver(const EnvironmentFinder& find, const VariableLookup& value_of, const std::string& folder)
        : find_(find), value_of_(value_of), folder_(folder) {}

    ResolvedEnvironment resolve(const std::string& name) {
        layer(name);
        Definition& definition = out_.definition;
        definition.name = name;
        add_texts(definition);
        for (const auto& [option, yes] : all_.choices)
            add_option(definition.options, yes ? option : srun_option_against(option), "");
        for (const FileText& text : all_.devices) add_device(definition, text);
        for (const FileText& text : all_.mounts) add_mount(definition, text);
        for (const auto& variable : all_.variables) {
            const FileText& value = variable.second;
            at(value, "env", [&] { check_braces(value.text); });
            definition.variables.push_back(cat(variable.first, "=", value.text));
        }
        return std::move(out_);
    }

  private:
    void layer(const std::string& name) {
        if (chain_.size() == most_levels)
            throw Error(cat("the environment ", printable(name, 1024), ": it is the base of more than ",
                            most_levels - 1, " others, one over the other; make them fewer"));
        if (out_.files.size() + chain_.size() >= most_files)
            throw Error(cat("the environment ", printable(chain_[0], 1024), ": it has more than ", most_files,
                            " files by its bases; make them fewer"));
        FoundEnvironment found = find(name);
        if (std::find(chain_.begin(), chain_.end(), found.path) != chain_.end())
            throw Error(cat("the environment ", printable(found.path, 1024), ": it is based on itself, by way of ",
                            printable(chain_.back(), 1024)));
        chain_.push_back(found.path);
        EnvironmentFile file = parse_environment_file(found.text, printable(found.path, 4096));
        for (const FileText& base : file.bases) {
            std::string wanted;
            at(base, "base", [&] { wanted = parse_environment_name(expanded(base.text, value_of_)); });
            layer(wanted);
        }
        chain_.pop_back();
        merge(file);
        note(file, found.path);
        out_.files.push_back(found.path);
    }

    FoundEnvironment find(const std::string& name) {
        try {
            return find_(name);
        } catch (const Error& error) {
            if (chain_.empty()) throw;
            throw Error(cat(error.what(), " (the base of ", printable(chain_.back(), 1024), ")"));
        }
    }

    void merge(EnvironmentFile& file) {
        for (auto& [option, text] : file.texts) all_.texts[option] = std::move(text);
        for (const auto& [option, yes] : file.choices) all_.choices[option] = yes;
        for (auto& [name, text] : file.variables) all_.variables[name] = std::move(text);
        all_.mounts.insert(all_.mounts.end(), file.mounts.begin(), file.mounts.end());
        all_.devices.insert(all_.devices.end(), file.devices.begin(), file.devices.end());
    }

    void note(const EnvironmentFile& file, const std::string& path) {
        std::string names;
        for (const std::string& key : file.unknown) names += cat(names.empty() ? "" : ", ", key);
        if (names.empty()) return;
        constexpr size_t most = 2000;
        if (names.size() > most) names = cat(names.substr(0, most), " ...");
        std::string line = cat("the environment ", printable(path, 1024), ": these have no effect here: ", names);
        if (std::find(out_.notes.begin(), out_.notes.end(), line) == out_.notes.end()) out_.notes.push_back(line);
    }

    /// Names the place in the file of what goes wrong in `action`.
    template <typename Action>
    static void at(const FileText& text, std::string_view key, Action action) {
        try {
            action();
        } catch (const Error& error) {
            throw Error(cat(text.place, ": ", key, ": ", error.what()));
        }
    }

    void add_texts(Definition& definition) {
        for (const FileKey& one : text_keys) {
            auto found = all_.texts.find(one.option);
            if (found == all_.texts.end()) continue;
            at(found->second, one.key, [&] {
                std::string value = expanded(found->second.text, value_of_);
                if (is_none(one.option, value)) return;
                bool relative = one.key == "workdir" && !value.starts_with('/') && !value.starts_with('~');
                if (relative && !folder_.empty()) value = cat(folder_, "/", value);
                try {
                    check_option(one.option, value);
                } catch (const Error& error) {
                    throw Error(reason(error, one.option));
                }
                add_option(definition.options, one.option, value);
            });
        }
    }

    static std::string srun_option_against(const std::string& option) {
        for (const SrunOption& one : srun_options())
            if (one.opposite != nullptr && one.opposite == option) return one.name;
        return option;
    }

    /// A path is a mount; any other is a name of CDI.
    void add_device(Definition& definition, const FileText& text) {
        at(text, "devices", [&] {
            std::string value = expanded(text.text, value_of_);
            if (value.starts_with('/')) return all_.mounts.push_back({device_mount(text.text), text.place});
            size_t slash = value.find('/'), equals = value.find('=');
            if (slash == value.npos || equals == value.npos || equals < slash ||
                value.find_first_of(", \t\n") != value.npos)
                throw Error(cat("'", printable(value),
                                "' is no device; write the path of a device file, or a CDI name as "
                                "vendor.com/class=name"));
            if (std::find(definition.devices.begin(), definition.devices.end(), value) == definition.devices.end())
                definition.devices.push_back(value);
        });
    }

    /// /dev/x:/dev/y:rwm as other engines have it, and /dev/x:rwm: what may be done to a node is its own modes' matter
    /// but for reading alone.
    static std::string device_mount(std::string text) {
        size_t colon = text.rfind(':');
        std::string_view rights = colon == text.npos ? std::string_view() : std::string_view(text).substr(colon + 1);
        if (rights.empty() || rights.find_first_not_of("rwm") != rights.npos) return text;
        bool reads = rights.find('w') == rights.npos, has_target = text.rfind(':', colon - 1) != text.npos;
        text.erase(colon);
        if (!reads) return text;
        return cat(text, has_target ? "" : ":" + text, ":ro");
    }

    /// Each text is one mount, so that commas can be between its flags, as other engines have it.
    static std::string with_joined_flags(std::string text) {
        auto colon_after = [&](size_t at) {
            while ((at = text.find(':', at)) != text.npos && at > 0 && text[at - 1] == '\\') ++at;
            return at;
        };
        size_t first = colon_after(0), second = first == text.npos ? first : colon_after(first + 1);
        if (second != text.npos && colon_after(second + 1) == text.npos)
            std::replace(text.begin() + static_cast<ptrdiff_t>(second), text.end(), ',', '+');
        return text;
    }

    void add_mount(Definition& definition, const FileText& text) {
        at(text, "mounts", [&] {
            std::string value = with_joined_flags(expanded(text.text, value_of_));
            std::vector<MountRequest> mounts = parse_mounts(value);
            if (mounts.size() != 1) throw Error("write one mount in each text of the list");
            for (size_t old = 0; old < definition.mounts.size(); ++old)
                if (targets_[old] == mounts[0].target) {
                    definition.mounts.erase(definition.mounts.begin() + static_cast<ptrdiff_t>(old));
                    targets_.erase(targets_.begin() + static_cast<ptrdiff_t>(old));
                    break;
                }
            definition.mounts.push_back(value);
            targets_.push_back(mounts[0].target);
        });
    }

    const EnvironmentFinder& find_;
    const VariableLookup& value_of_;
    const std::string& folder_;
    EnvironmentFile all_;
    std::vector<std::string> chain_;    ///< files that are being read, each the base of the one before
    std::vector<std::string> targets_;  ///< of the mounts
    ResolvedEnvironment out_;
};

}  // namespace

EnvironmentFile parse_environment_file(std::string_view text, const std::string& path) {
    check_toml_depth(text, path);
    Mistakes mistakes;
    toml::table file = parse_toml(text, path, mistakes);
    if (!mistakes.empty()) throw Error(mistakes.front());
    return Reader(path).read(file);
}

ResolvedEnvironment resolve_environment(const std::string& name, const EnvironmentFinder& find,
                                        const VariableLookup& value_of, const std::string& folder) {
    return Resolver(find, value_of, folder).resolve(name);
}

}  // namespace berth::plan
