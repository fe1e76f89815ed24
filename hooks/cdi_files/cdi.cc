#include "hooks/cdi_files/cdi.hh"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "hooks/cdi_files/yaml.hh"
#include "hooks/edits.hh"
#include "hooks/makers.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/json_strict.hh"
#include "runtime/request/mount_flags.hh"

namespace berth::hooks {

using nlohmann::json;

namespace {

void allow_only(const json& object, const std::set<std::string>& names, const std::string& what) {
    if (!object.is_object()) throw Error(cat(what, ": it is no object"));
    for (const auto& [name, value] : object.items())
        if (!names.contains(name)) throw Error(cat(what, ": unknown member '", printable(name), "'"));
}

std::string text_of(const json& object, const char* name, const std::string& what, bool required = true) {
    auto text = oci::string_member(object, name, what);
    if (required && (!text || text->empty())) throw Error(cat(what, ": it has no ", name));
    return text.value_or("");
}

/// Programs whose words are those of nvidia-ctk's hooks.
struct HookProgram {
    std::string_view name;
    bool nvidia;  ///< has the hooks that a maker does as well
};
constexpr HookProgram hook_programs[] = {{"nvidia-ctk", true},     {"nvidia-cdi-hook", true}, {"hcu-ctk", false},
                                         {"hcu-cdi-hook", false}, {"rbln-ctk", false},       {"rbln-cdi-hook", false}};

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Debian's ldconfig is a script around the other one.
bool is_ldconfig(const std::string& program) { return program == "ldconfig" || program == "ldconfig.real"; }

bool is_hook_of_maker(const std::string& name) {
    return std::ranges::any_of(device_makers(), [&](const DeviceMaker* maker) {
        return std::ranges::find(maker->cdi_hooks, name) != maker->cdi_hooks.end();
    });
}

/// The edits of one "containerEdits".
class EditsReader {
  public:
    explicit EditsReader(std::string what, const std::string& file = {})
        : what_(std::move(what)), file_(file.empty() ? what_ : file) {}

    CdiEdits read(const json& edits) {
        allow_only(edits, {"env", "deviceNodes", "mounts", "hooks", "additionalGids", "intelRdt", "netDevices"}, what_);
        for (const std::string& text : oci::strings_member(edits, "env", what_)) add_variable(text);
        for_each(edits, "deviceNodes", [&](const json& node) { add_node(node); });
        for_each(edits, "mounts", [&](const json& mount) { add_mount(mount); });
        for_each(edits, "hooks", [&](const json& hook) { add_hook(hook); });
        for_each(edits, "additionalGids", [&](const json& group) { add_group(group); });
        for (const char* name : {"intelRdt", "netDevices"})
            if (edits.contains(name) && !edits[name].empty())
                out_.warnings.push_back(cat(file_, ": ", name, " has no effect: only root could do it"));
        return std::move(out_);
    }

  private:
    template <typename Action>
    void for_each(const json& object, const char* name, const Action& action) {
        if (const json* list = oci::array_member(object, name, what_))
            for (const json& one : *list) action(one);
    }

    void add_variable(const std::string& text) {
        if (text.find('=') == std::string::npos || text[0] == '=')
            throw Error(cat(what_, ": '", printable(text), "' is no NAME=VALUE"));
        // It would keep our own hook from working, and is there to keep NVIDIA's from it.
        if (text != "NVIDIA_VISIBLE_DEVICES=void") out_.environment.push_back(text);
    }

    void add_node(const json& node) {
        allow_only(node, {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions", "uid", "gid"},
                   what_);
        std::string path = text_of(node, "path", what_), source = text_of(node, "hostPath", what_, false);
        out_.nodes.emplace_back(source.empty() ? path : source, path);
    }

    /// 0 is everybody's, as the reference takes it.
    void add_group(const json& group) {
        if (!group.is_number_unsigned() || group.get<uint64_t>() > UINT32_MAX)
            throw Error(cat(what_, ": additionalGids has what is no number of a group"));
        if (auto number = group.get<unsigned>(); number != 0) out_.groups.insert(number);
    }

    void add_mount(const json& mount) {
        allow_only(mount, {"hostPath", "containerPath", "options", "type"}, what_);
        CdiEdits::Mount out{text_of(mount, "hostPath", what_), text_of(mount, "containerPath", what_), false, false};
        std::vector<std::string> options = oci::strings_member(mount, "options", what_);
        auto has = [&](const char* word) { return std::ranges::find(options, word) != options.end(); };
        std::string type = text_of(mount, "type", what_, false);
        // Runtimes bind where an option says it, whatever the type.
        bool binds = type.empty() || type == "none" || type == "bind" || has("bind") || has("rbind");
        if (!binds && type != "tmpfs")
            throw Error(cat(what_, ": the mount on ", printable(out.target, 4096), " is of the type ", printable(type),
                            "; a container can be given bind and tmpfs"));
        out.read_only = has("ro");
        out.no_exec = has("noexec");
        if (!binds) {
            out.source.clear();
            add_tmpfs_options(out, options);
        }
        out_.mounts.push_back(std::move(out));
    }

    void add_tmpfs_options(CdiEdits::Mount& out, const std::vector<std::string>& options) const {
        plan::MountRequest tmpfs;
        tmpfs.kind = plan::MountRequest::Kind::tmpfs;
        for (const std::string& option : options)
            if (option.find('=') != std::string::npos && !plan::apply_mount_flag(tmpfs, option).empty())
                throw Error(cat(what_, ": the tmpfs on ", printable(out.target, 4096), " has the option ",
                                printable(option), "; known are size=, mode=, nr_inodes= and huge="));
        out.options = std::move(tmpfs.options);
    }

    /// What known programs do is done by ourselves; no program of a specification is ever run.
    void add_hook(const json& hook) {
        allow_only(hook, {"hookName", "path", "args", "env", "timeout"}, what_);
        std::vector<std::string> words = oci::strings_member(hook, "args", what_);
        std::string path = text_of(hook, "path", what_, false), program = name_of(words.empty() ? path : words[0]);
        if (is_ldconfig(program)) return add_ldconfig(words, path);
        auto known = std::ranges::find(hook_programs, program, &HookProgram::name);
        if (known == std::end(hook_programs)) refuse(path);
        size_t at = words.size() > 1 && words[1] == "hook" ? 2 : 1;
        std::string name = at < words.size() ? words[at] : "";
        std::vector<std::string> arguments(words.begin() + static_cast<std::ptrdiff_t>(std::min(at + 1, words.size())),
                                           words.end());
        if (known->nvidia && is_hook_of_maker(name))
            out_.hooks.insert(name);
        else if (name == "create-symlinks")
            for (const std::string& value : values_of(name, "--link", arguments)) add_link(value);
        else if (name == "update-ldcache")
            for (const std::string& value : values_of(name, "--folder", arguments))
                out_.library_folders.push_back(value);
        else if (name == "chmod")
            add_modes(arguments);
        else
            refuse(name);
    }

    /// The loader's own program: folders that it is given, and those that it looks into anyway.
    void add_ldconfig(const std::vector<std::string>& words, const std::string& path) {
        std::vector<std::string> folders = usual_library_folders();
        for (size_t i = 1; i < words.size(); ++i)
            if (words[i].starts_with('/'))
                folders.push_back(words[i]);
            else if (words[i] != "-v" && words[i] != "-X")
                refuse(cat(path, " ", words[i]));
        out_.library_folders.insert(out_.library_folders.end(), folders.begin(), folders.end());
    }

    [[noreturn]] void refuse(const std::string& hook) const {
        throw Error(
            cat(what_, ": the hook ", printable(hook, 1024),
                " is none that berth does by itself, and it runs no others; a program in hooks.d can take its place"));
    }

    /// What comes after each `flag`, or is joined to it.
    std::vector<std::string> values_of(const std::string& hook, const std::string& flag,
                                       const std::vector<std::string>& words) const {
        std::vector<std::string> out;
        for (size_t i = 0; i < words.size(); ++i) {
            bool joined = words[i].starts_with(flag + "=");
            if (words[i] != flag && !joined) continue;
            if (!joined && i + 1 == words.size()) throw Error(cat(what_, ": ", hook, " lacks what comes after ", flag));
            out.push_back(joined ? words[i].substr(flag.size() + 1) : words[++i]);
        }
        return out;
    }

    void add_link(const std::string& value) {
        size_t colons = value.find("::");
        if (colons == std::string::npos) throw Error(cat(what_, ": '", printable(value), "' is no TARGET::LINK"));
        out_.links.emplace_back(value.substr(colons + 2), value.substr(0, colons));
    }

    /// Of directories: what the container gets otherwise belongs to the node.
    void add_modes(const std::vector<std::string>& words) {
        std::vector<std::string> modes = values_of("chmod", "--mode", words);
        std::string text = modes.empty() ? "" : modes.back();
        bool octal = !text.empty() && text.size() <= 4 && text.find_first_not_of("01234567") == std::string::npos;
        if (!octal)
            throw Error(
                cat(what_, ": chmod has the mode '", printable(text), "', which is no octal number up to 7777"));
        for (const std::string& path : values_of("chmod", "--path", words))
            out_.modes.emplace_back(path, static_cast<unsigned>(std::stoul(text, nullptr, 8)));
    }

    std::string what_;  ///< with the device
    std::string file_;
    CdiEdits out_;
};

/// What is wrong inside of its edits keeps the others usable: a driver's file has devices of several kinds.
void add_device(CdiSpec& out, const json& device, const std::string& what) {
    allow_only(device, {"name", "annotations", "containerEdits"}, what);
    std::string name = text_of(device, "name", what), whose = cat(what, ": device ", printable(name));
    if (!device.contains("containerEdits")) throw Error(cat(whose, " has no containerEdits"));
    if (out.devices.contains(name) || out.refused.contains(name)) throw Error(cat(whose, " is there twice"));
    try {
        const json* edits = oci::object_member(device, "containerEdits", whose);
        out.devices.emplace(name, edits ? EditsReader(whose, what).read(*edits) : CdiEdits());
    } catch (const Error& error) {
        out.refused.emplace(name, error.what());
    }
}

json hook_of(const std::string& name, const char* flag, const std::vector<std::string>& values) {
    json arguments = {"nvidia-cdi-hook", name};
    for (const std::string& value : values) {
        arguments.push_back(flag);
        arguments.push_back(value);
    }
    return {{"hookName", "createContainer"}, {"path", "/usr/bin/nvidia-cdi-hook"}, {"args", arguments}};
}

json chmod_hook(const std::string& path, unsigned mode) {
    char text[8];
    std::snprintf(text, sizeof text, "%o", mode & 07777);
    return {{"hookName", "createContainer"},
            {"path", "/usr/bin/nvidia-cdi-hook"},
            {"args", {"nvidia-cdi-hook", "chmod", "--mode", text, "--path", path}}};
}

}  // namespace

CdiEdits parse_container_edits(std::string_view text, const std::string& what) {
    return EditsReader(what).read(oci::parse_json(text, what));
}

CdiSpec parse_cdi(std::string_view text, bool yaml, const std::string& what) {
    json spec = yaml ? json_of_yaml(text, what) : oci::parse_json(text, what);
    allow_only(spec, {"cdiVersion", "kind", "annotations", "devices", "containerEdits"}, what);
    std::string version = text_of(spec, "cdiVersion", what);
    static const std::set<std::string> versions = {"0.3.0", "0.4.0", "0.5.0", "0.6.0",
                                                   "0.7.0", "0.8.0", "1.0.0", "1.1.0"};
    if (!versions.contains(version))
        throw Error(cat(what, ": cdiVersion ", printable(version), " is not known (0.3.0 to 1.1.0)"));
    CdiSpec out;
    out.kind = text_of(spec, "kind", what);
    try {
        if (const json* edits = oci::object_member(spec, "containerEdits", what))
            out.common = EditsReader(what).read(*edits);
    } catch (const Error& error) {
        out.all_refused = error.what();
    }
    if (const json* devices = oci::array_member(spec, "devices", what))
        for (const json& device : *devices) add_device(out, device, what);
    return out;
}

std::string cdi_text(const std::string& kind, const CdiEdits& edits) {
    json container = json::object();
    if (!edits.environment.empty()) container["env"] = edits.environment;
    for (const auto& [source, target] : edits.nodes)
        container["deviceNodes"].push_back({{"path", target}, {"hostPath", source}});
    for (const CdiEdits::Mount& mount : edits.mounts) {
        json options = {"nosuid", "nodev", "rbind", mount.read_only ? "ro" : "rw"};
        if (mount.no_exec) options.push_back("noexec");
        json one = {{"hostPath", mount.source.empty() ? "tmpfs" : mount.source},
                    {"containerPath", mount.target},
                    {"options", options}};
        if (mount.source.empty()) {
            // A bind is one whatever the type says.
            one["options"].erase(2);
            one["type"] = "tmpfs";
            for (const auto& [name, value] : mount.options) one["options"].push_back(name + "=" + value);
        }
        container["mounts"].push_back(one);
    }
    std::vector<std::string> links;
    for (const auto& [path, target] : edits.links) links.push_back(target + "::" + path);
    if (!links.empty()) container["hooks"].push_back(hook_of("create-symlinks", "--link", links));
    if (!edits.library_folders.empty())
        container["hooks"].push_back(hook_of("update-ldcache", "--folder", edits.library_folders));
    for (const std::string& name : edits.hooks) container["hooks"].push_back(hook_of(name, "", {}));
    for (const auto& [path, mode] : edits.modes) container["hooks"].push_back(chmod_hook(path, mode));
    if (!edits.groups.empty()) container["additionalGids"] = edits.groups;
    json device = {{"name", "all"}, {"containerEdits", container}};
    try {
        return json{{"cdiVersion", "0.5.0"}, {"kind", kind}, {"devices", {device}}}.dump(2) + "\n";
    } catch (const json::type_error&) {
        throw Error("writing a CDI specification: a path or variable is not in UTF-8, which JSON needs; rename it");
    }
}

}  // namespace berth::hooks
