#include "hooks/cdi_libraries.hh"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "hooks/edits.hh"
#include "hooks/elf.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

constexpr size_t files_limit = 4096;  ///< of a folder

std::string parent_of(const std::string& path) {
    return path.substr(0, path.rfind('/'));
}
std::string base_name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

/// As ldconfig takes them.
bool is_library(const std::string& name) {
    return (name.starts_with("lib") || name.starts_with("ld-")) && name.find(".so") != std::string::npos;
}

/// "libx.so.12" of the library "libx": names that are no SONAME have more numbers.
bool is_short_name(const std::string& name, const std::string& stem) {
    std::string start = stem + ".so.";
    return name.size() > start.size() && name.starts_with(start) &&
           name.find_first_not_of("0123456789", start.size()) == std::string::npos;
}

/// The libraries of one folder of the container.
class Folder {
  public:
    Folder(const LibraryPlaces& places, const Host& host, const Rootfs& image, std::string path)
        : places_(places), host_(host), image_(image), path_(std::move(path)) {}

    FoundLibraries find() {
        add_content();
        for (const auto& mount : places_.mounts)
            if (parent_of(mount.second) == path_ && mount.second.find(".so") != std::string::npos) add_mounted(mount);
        for (const auto& [link, target] : places_.links)
            if (parent_of(link) == path_ && link.find(".so") != std::string::npos && leads_somewhere(target))
                know(base_name_of(link), false);
        FoundLibraries out{path_, std::move(links_), {}};
        for (const auto& [key, file] : names_)
            out.libraries.push_back({.flags = key.second, .name = key.first, .path = path_ + "/" + file});
        return out;
    }

  private:
    void know(const std::string& name, bool narrow, const std::string& file = {}) {
        names_[{name, narrow ? loader_flags_32bit : loader_flags()}] = file.empty() ? name : file;
    }

    /// Of a folder on the node that is mounted here, or above; else of the image's.
    void add_content() {
        const std::pair<std::string, std::string>* above = nullptr;
        for (const auto& mount : places_.mounts)
            if (mount.second == path_ || path_.starts_with(mount.second + "/")) above = &mount;
        if (above) {
            if (above->first.empty()) return;
            std::string source = above->first + path_.substr(above->second.size());
            add_files(host_.list(source), [&](const std::string& name) { return host_name(source + "/" + name); });
        } else if (!is_usual()) {
            add_files(image_.list(path_), [&](const std::string& name) {
                return read_library_name(
                    [&](uint64_t offset, size_t size) { return image_.read(path_ + "/" + name, offset, size); });
            });
        }
    }

    /// The image's own cache has what lies there.
    bool is_usual() const {
        std::vector<std::string> usual = usual_library_folders();
        return std::ranges::find(usual, path_) != usual.end() || path_ == library_place(image_).narrow_folder;
    }

    std::optional<LibraryName> host_name(const std::string& path) const {
        return read_library_name([&](uint64_t offset, size_t size) { return host_.read_part(path, offset, size); });
    }

    /// No link can be made in a folder that is mounted: a SONAME without one leads to the file with the greatest
    /// number.
    template <typename Read>
    void add_files(std::vector<std::string> files, Read read) {
        if (files.size() > files_limit) files.resize(files_limit);
        std::set<std::string> there(files.begin(), files.end());
        std::ranges::sort(files, [](const std::string& one, const std::string& other) {
            return compare_library_names(one, other) < 0;
        });
        for (const std::string& file : files) {
            auto library = is_library(file) ? read(file) : std::nullopt;
            if (!library) continue;
            std::string soname = library->soname.empty() ? file : library->soname;
            know(soname, library->narrow, there.contains(soname) ? soname : file);
            if (file.ends_with(".so")) know(file, library->narrow);
        }
    }

    void add_mounted(const std::pair<std::string, std::string>& mount) {
        std::string file = base_name_of(mount.second);
        auto library = host_name(mount.first);
        bool narrow = library && library->narrow;
        know(file, narrow);
        for (const std::string& name :
             library && !library->soname.empty() ? std::vector{library->soname} : names_on_host(mount, file)) {
            if (name != file && !is_brought(name)) links_.emplace_back(path_ + "/" + name, file);
            know(name, narrow);
        }
    }

    /// By its links on the node, which ldconfig has made there.
    std::vector<std::string> names_on_host(const std::pair<std::string, std::string>& mount,
                                           const std::string& file) const {
        std::string folder = parent_of(mount.first), stem = file.substr(0, file.find(".so"));
        auto itself = host_.resolved(mount.first);
        std::vector<std::string> out;
        for (const std::string& name : host_.list(folder))
            if (name != file && is_short_name(name, stem) && itself && host_.resolved(folder + "/" + name) == itself)
                out.push_back(name);
        return out;
    }

    /// By a mount or a link of its own.
    bool is_brought(const std::string& name) const {
        std::string path = path_ + "/" + name;
        return std::ranges::any_of(places_.mounts, [&](const auto& mount) { return mount.second == path; }) ||
               std::ranges::any_of(places_.links, [&](const auto& link) { return link.first == path; });
    }

    bool leads_somewhere(const std::string& target) const {
        std::string path = plan::normalised(target.starts_with('/') ? target : path_ + "/" + target);
        if (image_.exists(path)) return true;
        if (parent_of(path) == path_ && names_.contains({base_name_of(path), loader_flags()})) return true;
        if (std::ranges::any_of(places_.links, [&](const auto& link) { return link.first == path; })) return true;
        return std::ranges::any_of(places_.mounts, [&](const auto& mount) {
            return mount.second == path || (path.starts_with(mount.second + "/") && !mount.first.empty() &&
                                            host_.exists(mount.first + path.substr(mount.second.size())));
        });
    }

    const LibraryPlaces& places_;
    const Host& host_;
    const Rootfs& image_;
    std::string path_;
    std::map<std::pair<std::string, int32_t>, std::string> names_;  ///< and the file in the folder that it leads to
    std::vector<std::pair<std::string, std::string>> links_;
};

}  // namespace

std::vector<FoundLibraries> find_libraries(const LibraryPlaces& places, const Host& host, const Rootfs& image) {
    std::set<std::string> folders(places.folders.begin(), places.folders.end());
    std::vector<FoundLibraries> out;
    for (const std::string& folder : folders)
        if (FoundLibraries found = Folder(places, host, image, folder).find(); !found.libraries.empty())
            out.push_back(std::move(found));
    return out;
}

}  // namespace berth::hooks
