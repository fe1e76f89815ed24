#include "hooks/cdi_edits.hh"

#include <algorithm>
#include <set>

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

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

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
        for (const auto& [source, target] : edits_.nodes) {
            bind(source, target).device = true;
        }
        for (const CdiEdits::Mount& mount : edits_.mounts) {
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

    /// ldconfig would make a link for each SONAME; the node has them already.
    void add_names(plan::LoaderLibraries& loader, const std::string& folder, const CdiEdits::Mount& mount) {
        std::string file = name_of(mount.target);
        std::string stem = file.substr(0, file.find(".so"));
        auto know = [&](const std::string& name) {
            loader.libraries.push_back({.flags = plan::loader_flags(), .name = name, .path = folder + "/" + name});
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
        for (const CdiEdits::Mount& mount : edits_.mounts)
            if (std::string folder = folder_of(mount.target);
                folders.contains(folder) && mount.target.find(".so") != std::string::npos)
                add_names(loader, folder, mount);
        for (const plan::CachedLibrary& first : preferred_) {
            std::erase_if(loader.libraries, [&](const plan::CachedLibrary& one) { return one.name == first.name; });
            loader.libraries.push_back(first);
        }
        if (!loader.libraries.empty()) out_.edits.push_back({loader, origin_, "how the loader finds them"});
    }

    const CdiEdits& edits_;
    const Host& host_;
    const Rootfs& image_;
    const plan::Origin& origin_;
    const std::vector<plan::ContainerEdits>& before_;
    std::vector<plan::CachedLibrary> preferred_;  ///< of hooks
    plan::ContainerEdits out_;
};

}  // namespace

void CdiEdits::append(const CdiEdits& more) {
    auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    add(environment, more.environment);
    add(nodes, more.nodes);
    add(mounts, more.mounts);
    add(links, more.links);
    add(library_folders, more.library_folders);
    add(modes, more.modes);
    add(warnings, more.warnings);
    hooks.insert(more.hooks.begin(), more.hooks.end());
}

std::string lines_of(const CdiEdits& edits, const std::string& what) {
    LineWriter lines(what);
    for (const std::string& text : edits.environment) lines.add({"env", text});
    for (const auto& [source, target] : edits.nodes) lines.add({"node", source, target});
    for (const CdiEdits::Mount& mount : edits.mounts)
        lines.add(
            {"mount", mount.source, mount.target, mount.read_only ? "ro" : "rw", mount.no_exec ? "noexec" : "exec"});
    for (const auto& [path, target] : edits.links) lines.add({"link", path, target});
    for (const std::string& folder : edits.library_folders) lines.add({"libraries", folder});
    for (const std::string& text : edits.warnings) lines.add({"warning", text});
    for (const auto& [path, mode] : edits.modes) lines.add({"mode", path, cat(mode)});
    for (const std::string& name : edits.hooks) lines.add({"hook", name});
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
        else if (is("hook", 2))
            out.hooks.insert(words[1]);
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
