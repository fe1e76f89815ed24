#include "hooks/device_edits.hh"

#include <algorithm>
#include <set>

#include "hooks/nvidia/nvidia.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

/// Of one change: its fields with tabs between them.
class LineWriter {
  public:
    explicit LineWriter(const std::string& what) : what_(what) {}

    void add(std::initializer_list<std::string> fields) {
        bool first = true;
        for (const std::string& field : fields) {
            if (std::any_of(field.begin(), field.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
                throw Error(cat(what_, ": a change of the container has control characters in it: ", printable(field)));
            text_ += (std::exchange(first, false) ? "" : "\t") + field;
        }
        text_ += '\n';
    }
    std::string take() { return std::move(text_); }

  private:
    const std::string& what_;
    std::string text_;
};

/// The words of what is there or not.
const std::pair<const char*, bool DeviceEdits::*> flags[] = {
    {"compat", &DeviceEdits::cuda_compat},
    {"keep-nodes", &DeviceEdits::keep_nodes},
    {"application-profile", &DeviceEdits::application_profile}};

const std::pair<const char*, bool DeviceEdits::*>* flag_named(const std::string& word) {
    const auto* found =
        std::find_if(std::begin(flags), std::end(flags), [&](const auto& flag) { return flag.first == word; });
    return found == std::end(flags) ? nullptr : found;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class Converter {
  public:
    Converter(const DeviceEdits& edits, const Host& host, const Rootfs& image, const std::string& origin)
        : edits_(edits), host_(host), image_(image), origin_(origin) {}

    plan::Additions run() {
        out_.environment = edits_.environment;
        out_.warnings = edits_.warnings;
        // Before the mounts, which would make directories with the usual mode.
        for (const auto& [path, mode] : edits_.modes)
            out_.edits.push_back({plan::Directory{checked(path), mode}, origin_, "asked for"});
        if (edits_.keep_nodes || edits_.application_profile) add_driver_files();
        for (const auto& [source, target] : edits_.nodes) {
            bind(source, target).device = true;
        }
        for (const DeviceEdits::Mount& mount : edits_.mounts) {
            plan::Mount& made = mount.source.empty() ? tmpfs(mount.target) : bind(mount.source, mount.target);
            made.read_only = mount.read_only;
            made.no_exec = mount.no_exec;
            made.create = plan::Mount::Create::automatic;
        }
        for (const auto& [path, target] : edits_.links)
            out_.edits.push_back({plan::Symlink{checked(path), target, true}, origin_, "a link"});
        add_libraries();
        return std::move(out_);
    }

  private:
    std::string checked(const std::string& path) const {
        std::string why =
            path.starts_with('/') ? plan::forbidden_target(plan::normalised(path)) : "it is no absolute path";
        if (!why.empty()) throw Error(cat(origin_, ": ", printable(path, 4096), ": ", why));
        return plan::normalised(path);
    }

    plan::Mount& bind(const std::string& source, const std::string& target) {
        if (!source.starts_with('/'))
            throw Error(cat(origin_, ": ", printable(source, 4096), ": it is no absolute path"));
        out_.edits.push_back(bind_edit(host_, source, checked(target), origin_, "asked for"));
        return std::get<plan::Mount>(out_.edits.back().action);
    }

    plan::Mount& tmpfs(const std::string& target) {
        plan::Mount mount;
        mount.kind = plan::Mount::Kind::tmpfs;
        mount.target = checked(target);
        mount.mode = 01777;
        out_.edits.push_back({mount, origin_, "asked for"});
        return std::get<plan::Mount>(out_.edits.back().action);
    }

    bool has_node(const std::string& target) const {
        return std::any_of(edits_.nodes.begin(), edits_.nodes.end(),
                           [&](const auto& node) { return node.second == target; });
    }

    /// What the driver's library reads about the GPUs and slices whose nodes the container gets.
    void add_driver_files() {
        auto driver = find_driver(host_, {});
        if (!driver) return;
        Choice choice;
        for (size_t i = 0; i < driver->gpus.size(); ++i) {
            const Gpu& gpu = driver->gpus[i];
            if (!has_node(gpu_node(gpu))) continue;
            choice.devices.insert({i, std::nullopt});
            for (size_t slice = 0; slice < gpu.slices.size(); ++slice)
                if (const auto& cap = gpu.slices[slice].compute_cap; cap && has_node(cap_node(*cap)))
                    choice.devices.insert({i, slice});
        }
        size_t before = out_.edits.size();
        if (edits_.keep_nodes) add_proc_edits(out_.edits, host_, *driver, choice);
        if (edits_.application_profile) add_profile_edits(out_.edits, *driver, choice);
        for (size_t i = before; i < out_.edits.size(); ++i) out_.edits[i].origin = origin_;
    }

    /// ldconfig would make a link for each SONAME; the node has them already.
    void add_names(plan::LoaderLibraries& loader, const std::string& folder, const DeviceEdits::Mount& mount) {
        std::string file = name_of(mount.target);
        std::string stem = file.substr(0, file.find(".so"));
        auto know = [&](const std::string& name) {
            loader.libraries.push_back({plan::loader_flags(), name, folder + "/" + name, 0, 0});
        };
        know(file);
        for (const char* ending : {".so.0", ".so.1", ".so.2", ".so.4"}) {
            std::string name = stem + ending;
            auto real = name == file ? std::nullopt : host_.resolved(folder_of(mount.source) + "/" + name);
            if (!real || name_of(*real) != name_of(mount.source)) continue;
            out_.edits.push_back({plan::Symlink{folder + "/" + name, file, true}, origin_, "a name of a library"});
            know(name);
        }
    }

    void add_libraries() {
        plan::LoaderLibraries loader;
        LibraryPlace place = library_place(image_);
        loader.musl_path = place.musl_path;
        std::set<std::string> folders(edits_.library_folders.begin(), edits_.library_folders.end());
        for (const std::string& folder : folders) loader.folder = folder;
        for (const DeviceEdits::Mount& mount : edits_.mounts)
            if (std::string folder = folder_of(mount.target);
                folders.contains(folder) && mount.target.find(".so") != std::string::npos)
                add_names(loader, folder, mount);
        std::string version =
            edits_.cuda_compat ? parse_module_version(host_.read("/proc/driver/nvidia/version").value_or("")) : "";
        std::string compat = version.empty() ? "" : compat_folder(image_, version);
        if (!compat.empty())
            for (const std::string& name : image_.list(compat))
                if (name.starts_with("lib") && name.find(".so.") != std::string::npos) {
                    std::erase_if(loader.libraries,
                                  [&](const plan::CachedLibrary& library) { return library.name == name; });
                    loader.libraries.push_back({plan::loader_flags(), name, compat + "/" + name, 0, 0});
                }
        if (!loader.libraries.empty()) out_.edits.push_back({loader, origin_, "how the loader finds them"});
    }

    const DeviceEdits& edits_;
    const Host& host_;
    const Rootfs& image_;
    const std::string& origin_;
    plan::Additions out_;
};

}  // namespace

void DeviceEdits::append(const DeviceEdits& more) {
    auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(environment, more.environment);
    add(nodes, more.nodes);
    add(mounts, more.mounts);
    add(links, more.links);
    add(library_folders, more.library_folders);
    add(modes, more.modes);
    add(warnings, more.warnings);
    cuda_compat |= more.cuda_compat;
    keep_nodes |= more.keep_nodes;
    application_profile |= more.application_profile;
}

std::string lines_of(const DeviceEdits& edits, const std::string& what) {
    LineWriter lines(what);
    for (const std::string& text : edits.environment) lines.add({"env", text});
    for (const auto& [source, target] : edits.nodes) lines.add({"node", source, target});
    for (const DeviceEdits::Mount& mount : edits.mounts)
        lines.add(
            {"mount", mount.source, mount.target, mount.read_only ? "ro" : "rw", mount.no_exec ? "noexec" : "exec"});
    for (const auto& [path, target] : edits.links) lines.add({"link", path, target});
    for (const std::string& folder : edits.library_folders) lines.add({"libraries", folder});
    for (const std::string& text : edits.warnings) lines.add({"warning", text});
    for (const auto& [path, mode] : edits.modes) lines.add({"mode", path, cat(mode)});
    for (const auto& [word, flag] : flags)
        if (edits.*flag) lines.add({word});
    return lines.take();
}

DeviceEdits parse_device_edits(std::string_view lines, const std::string& what) {
    DeviceEdits out;
    for (const std::string& text : split(lines, '\n')) {
        if (text.empty()) continue;
        std::vector<std::string> words = split(text, '\t');
        auto is = [&](const char* word, size_t size) { return words[0] == word && words.size() == size; };
        if (is("env", 2))
            out.environment.push_back(words[1]);
        else if (is("node", 3))
            out.nodes.emplace_back(words[1], words[2]);
        else if (is("mount", 5))
            out.mounts.push_back({words[1], words[2], words[3] == "ro", words[4] == "noexec"});
        else if (is("link", 3))
            out.links.emplace_back(words[1], words[2]);
        else if (is("libraries", 2))
            out.library_folders.push_back(words[1]);
        else if (is("warning", 2))
            out.warnings.push_back(words[1]);
        else if (uint64_t mode = 0; is("mode", 3) && parse_number(words[2], 07777, mode))
            out.modes.emplace_back(words[1], static_cast<unsigned>(mode));
        else if (const auto* flag = words.size() == 1 ? flag_named(words[0]) : nullptr)
            out.*(flag->second) = true;
        else
            throw Error(cat("reading ", what, ": '", printable(text), "' is no change of a container"));
    }
    return out;
}

plan::Additions additions_of(const DeviceEdits& edits, const Host& host, const Rootfs& image,
                             const std::string& origin) {
    return Converter(edits, host, image, origin).run();
}

DeviceEdits device_edits_of(const plan::Additions& additions) {
    DeviceEdits out;
    out.environment = additions.environment;
    std::set<std::string> folders;
    for (const plan::Edit& edit : additions.edits) {
        if (const auto* mount = std::get_if<plan::Mount>(&edit.action)) {
            if (mount->device)
                out.nodes.emplace_back(mount->source, mount->target);
            else if (mount->kind == plan::Mount::Kind::bind)
                out.mounts.push_back({mount->source, mount->target, mount->read_only, mount->no_exec});
        } else if (const auto* link = std::get_if<plan::Symlink>(&edit.action)) {
            out.links.emplace_back(link->path, link->target);
        } else if (const auto* directory = std::get_if<plan::Directory>(&edit.action)) {
            // The profile's folder comes with the profile.
            if (directory->path != folder_of(application_profile))
                out.modes.emplace_back(directory->path, directory->mode);
        } else if (const auto* file = std::get_if<plan::DropIn>(&edit.action)) {
            out.keep_nodes |= file->path == driver_params;
            out.application_profile |= file->path == application_profile;
        } else if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action)) {
            for (const plan::CachedLibrary& library : loader->libraries) folders.insert(folder_of(library.path));
        }
    }
    out.library_folders.assign(folders.begin(), folders.end());
    return out;
}

bool shows_driver(const plan::Additions& additions) {
    return std::any_of(additions.edits.begin(), additions.edits.end(), [](const plan::Edit& edit) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        return mount && mount->kind == plan::Mount::Kind::tmpfs && mount->target == "/proc/driver/nvidia";
    });
}

}  // namespace berth::hooks
