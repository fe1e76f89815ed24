#include "hooks/cdi_edits.hh"

#include <algorithm>
#include <set>

#include "hooks/cdi_libraries.hh"
#include "hooks/edits.hh"
#include "hooks/makers.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

/// Of one change: its fields with tabs between them.
class LineWriter {
  public:
    explicit LineWriter(const std::string& what) : what_(what) {}

    void add(const std::vector<std::string>& fields) {
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

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

auto depth_of(const std::string& path) {
    std::string normal = plan::normalised(path);
    return std::ranges::count(normal, '/');
}

class Converter {
  public:
    Converter(const CdiEdits& edits, const Host& host, const Rootfs& image, const plan::Origin& origin,
              const std::vector<plan::ContainerEdits>& before)
        : edits_(edits), host_(host), image_(image), origin_(origin), before_(before) {}

    plan::ContainerEdits run() {
        out_.environment = edits_.environment;
        out_.warnings = edits_.warnings;
        // Before the mounts, which would make directories with the usual mode.
        for (const auto& [path, mode] : edits_.modes)
            out_.edits.push_back({plan::Directory{checked(path), mode}, origin_, "asked for"});
        do_hooks();
        warn_of_groups();
        add_mounts();
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

    plan::Mount& tmpfs(const CdiEdits::Mount& asked) {
        plan::Mount mount;
        mount.kind = plan::Mount::Kind::tmpfs;
        mount.target = checked(asked.target);
        mount.mode = 01777;
        mount.options = asked.options;
        out_.edits.push_back({mount, origin_, "asked for"});
        return std::get<plan::Mount>(out_.edits.back().action);
    }

    void add_mount(const CdiEdits::Mount& mount) {
        plan::Mount& made = mount.source.empty() ? tmpfs(mount) : bind(mount.source, mount.target);
        made.read_only = mount.read_only;
        made.no_exec = mount.no_exec;
        made.create = plan::Mount::Create::automatic;
    }

    /// Whatever their order in the file: one on a folder would hide what was mounted below it.
    void add_mounts() {
        struct Place {
            std::ptrdiff_t depth;
            const std::pair<std::string, std::string>* node;
            const CdiEdits::Mount* mount;
        };
        std::vector<Place> all;
        for (const auto& node : edits_.nodes) all.push_back({depth_of(node.second), &node, nullptr});
        for (const CdiEdits::Mount& mount : edits_.mounts) all.push_back({depth_of(mount.target), nullptr, &mount});
        std::ranges::stable_sort(all, {}, &Place::depth);
        for (const Place& one : all)
            if (one.node)
                bind(one.node->first, one.node->second).device = true;
            else
                add_mount(*one.mount);
    }

    void warn_of_groups() {
        std::string missing;
        for (unsigned group : edits_.groups)
            if (!host_.has_group(group)) missing += cat(missing.empty() ? "" : ", ", group);
        if (!missing.empty())
            out_.warnings.push_back(cat(origin_, ": additionalGids has no effect for the groups ", missing,
                                        ", of which you are no member: only root could add them; have an administrator "
                                        "make you one if a device cannot be opened"));
    }

    /// Those that a maker does by itself.
    void do_hooks() {
        for (const DeviceMaker* maker : device_makers()) {
            auto asked = [&](const char* name) { return edits_.hooks.contains(name); };
            if (std::ranges::none_of(maker->cdi_hooks, asked)) continue;
            bool made = std::ranges::any_of(before_, [&](const plan::ContainerEdits& one) {
                return one.vendor == maker->vendor && !one.edits.empty();
            });
            CdiHookResult result = maker->do_cdi_hooks({host_, image_, edits_, made});
            for (plan::Edit& edit : result.edits) out_.edits.push_back({std::move(edit.action), origin_, edit.reason});
            preferred_.insert(preferred_.end(), result.preferred.begin(), result.preferred.end());
        }
    }

    LibraryPlaces library_places() const {
        LibraryPlaces out;
        for (const std::string& folder : edits_.library_folders) out.folders.push_back(plan::normalised(folder));
        for (const CdiEdits::Mount& mount : edits_.mounts)
            out.mounts.emplace_back(mount.source, plan::normalised(mount.target));
        for (const auto& [path, target] : edits_.links) out.links.emplace_back(plan::normalised(path), target);
        return out;
    }

    /// musl's loader has no cache, but a list of folders.
    void add_libraries() {
        plan::LoaderLibraries loader;
        loader.musl_path = library_place(image_).musl_path;
        auto add_edit = [&] { out_.edits.push_back({loader, origin_, "how the loader finds them"}); };
        for (const FoundLibraries& found : find_libraries(library_places(), host_, image_)) {
            for (const auto& [path, target] : found.links)
                out_.edits.push_back({plan::Symlink{checked(path), target, true}, origin_, "a name of a library"});
            loader.libraries.insert(loader.libraries.end(), found.libraries.begin(), found.libraries.end());
            loader.folder = found.folder;
            if (!loader.musl_path.empty()) add_edit();
        }
        for (const plan::CachedLibrary& first : preferred_) {
            std::erase_if(loader.libraries, [&](const plan::CachedLibrary& one) { return one.name == first.name; });
            loader.libraries.push_back(first);
        }
        if (loader.musl_path.empty() && !loader.libraries.empty()) add_edit();
    }

    const CdiEdits& edits_;
    const Host& host_;
    const Rootfs& image_;
    const plan::Origin& origin_;
    const std::vector<plan::ContainerEdits>& before_;
    std::vector<plan::CachedLibrary> preferred_;  ///< of hooks
    plan::ContainerEdits out_;
};

CdiEdits::Mount mount_of(const std::vector<std::string>& words) {
    CdiEdits::Mount out{words[1], words[2], words[3] == "ro", words[4] == "noexec"};
    for (size_t i = 5; i + 1 < words.size(); i += 2) out.options.emplace_back(words[i], words[i + 1]);
    return out;
}

}  // namespace

void CdiEdits::append(const CdiEdits& more) {
    auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(environment, more.environment);
    add(nodes, more.nodes);
    add(mounts, more.mounts);
    add(links, more.links);
    add(library_folders, more.library_folders);
    add(modes, more.modes);
    // Devices of a kind say the same.
    for (const std::string& line : more.warnings)
        if (std::ranges::find(warnings, line) == warnings.end()) warnings.push_back(line);
    groups.insert(more.groups.begin(), more.groups.end());
    hooks.insert(more.hooks.begin(), more.hooks.end());
}

std::string lines_of(const CdiEdits& edits, const std::string& what) {
    LineWriter lines(what);
    for (const std::string& text : edits.environment) lines.add({"env", text});
    for (const auto& [source, target] : edits.nodes) lines.add({"node", source, target});
    for (const CdiEdits::Mount& mount : edits.mounts) {
        std::vector<std::string> fields = {"mount", mount.source, mount.target, mount.read_only ? "ro" : "rw",
                                           mount.no_exec ? "noexec" : "exec"};
        for (const auto& [name, value] : mount.options) fields.insert(fields.end(), {name, value});
        lines.add(fields);
    }
    for (const auto& [path, target] : edits.links) lines.add({"link", path, target});
    for (const std::string& folder : edits.library_folders) lines.add({"libraries", folder});
    for (const std::string& text : edits.warnings) lines.add({"warning", text});
    for (const auto& [path, mode] : edits.modes) lines.add({"mode", path, cat(mode)});
    for (const std::string& name : edits.hooks) lines.add({"hook", name});
    for (unsigned group : edits.groups) lines.add({"group", cat(group)});
    return lines.take();
}

CdiEdits parse_cdi_edits(std::string_view lines, const std::string& what) {
    CdiEdits out;
    for (const std::string& text : split(lines, '\n')) {
        if (text.empty()) continue;
        std::vector<std::string> words = split(text, '\t');
        auto is = [&](const char* word, size_t size) { return words[0] == word && words.size() == size; };
        if (is("env", 2))
            out.environment.push_back(words[1]);
        else if (is("node", 3) && !words[1].empty() && !words[2].empty())
            out.nodes.emplace_back(words[1], words[2]);
        else if (words[0] == "mount" && words.size() >= 5 && words.size() % 2 == 1)
            out.mounts.push_back(mount_of(words));
        else if (is("link", 3))
            out.links.emplace_back(words[1], words[2]);
        else if (is("libraries", 2))
            out.library_folders.push_back(words[1]);
        else if (is("warning", 2))
            out.warnings.push_back(words[1]);
        else if (uint64_t mode = 0; is("mode", 3) && parse_number(words[2], 07777, mode))
            out.modes.emplace_back(words[1], static_cast<unsigned>(mode));
        else if (is("hook", 2))
            out.hooks.insert(words[1]);
        else if (uint64_t group = 0; is("group", 2) && parse_number(words[1], UINT32_MAX, group))
            out.groups.insert(static_cast<unsigned>(group));
        else
            throw Error(cat("reading ", what, ": '", printable(text), "' is no change of a container"));
    }
    return out;
}

plan::ContainerEdits container_edits_of(const CdiEdits& edits, const Host& host, const Rootfs& image,
                                        const plan::Origin& origin, const std::vector<plan::ContainerEdits>& before) {
    return Converter(edits, host, image, origin, before).run();
}

CdiEdits cdi_edits_of(const plan::ContainerEdits& made) {
    CdiEdits out;
    out.environment = made.environment;
    out.hooks.insert(made.cdi_hooks.begin(), made.cdi_hooks.end());
    std::set<std::string> libraries, of_files;
    for (const plan::Edit& edit : made.edits)
        if (const auto* file = std::get_if<plan::DropIn>(&edit.action)) of_files.insert(folder_of(file->path));
    for (const plan::Edit& edit : made.edits) {
        if (const auto* mount = std::get_if<plan::Mount>(&edit.action)) {
            if (mount->device)
                out.nodes.emplace_back(mount->source, mount->target);
            else if (mount->kind == plan::Mount::Kind::bind)
                out.mounts.push_back({mount->source, mount->target, mount->read_only, mount->no_exec});
        } else if (const auto* link = std::get_if<plan::Symlink>(&edit.action)) {
            out.links.emplace_back(link->path, link->target);
        } else if (const auto* directory = std::get_if<plan::Directory>(&edit.action)) {
            // A file's folder comes with the file, which comes by a hook.
            if (!of_files.contains(directory->path)) out.modes.emplace_back(directory->path, directory->mode);
        } else if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action)) {
            for (const plan::CachedLibrary& library : loader->libraries) libraries.insert(folder_of(library.path));
        }
    }
    out.library_folders.assign(libraries.begin(), libraries.end());
    return out;
}

}  // namespace berth::hooks
