#include "hooks/nvidia/files.hh"

#include <algorithm>

#include "hooks/nvidia/names.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"
#include "runtime/request/mounts.hh"

namespace berth::hooks {

namespace {

constexpr const char* library_folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/nvidia/lib64",   "/usr/local/nvidia/lib",      "/lib64",
};
constexpr const char* narrow_folders[] = {"/usr/lib/i386-linux-gnu", "/usr/lib32", "/usr/lib"};
constexpr const char* program_folders[] = {"/usr/bin", "/usr/sbin", "/bin", "/usr/local/bin", "/usr/local/nvidia/bin",
                                           "/opt/bin"};
const std::string imex_configuration = "/etc/nvidia-imex/config.cfg";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// "570.86.15" of "libcuda.so.570.86.15"; empty for "libcuda.so.1".
std::string version_of(const std::string& name) {
    size_t at = name.find(".so.");
    std::string version = at == std::string::npos ? "" : name.substr(at + 4);
    bool number = version.find_first_not_of("0123456789.") == std::string::npos;
    return number && version.find('.') != std::string::npos ? version : "";
}

class Search {
  public:
    /// `tree` is the driver's root, out of which no link leads.
    Search(const Host& node, const Host& tree, const std::string& root, const std::string& module_version,
           const std::set<Capability>& capabilities)
        : node_(node), tree_(tree), root_(root), module_version_(module_version), capabilities_(capabilities) {}

    DriverFiles run() {
        find_folders();
        find_version();
        if (!out_.version.empty()) find_libraries();
        for (const DriverPart& part : driver_programs())
            if (wanted(part)) find_program(part.name);
        for (const DriverPart& part : driver_sockets())
            if (wanted(part)) find_socket(part.name);
        if (capabilities_.contains(Capability::utility))
            if (std::string path = imex_socket(); !path.empty()) find_socket(path);
        for (const DriverPart& part : driver_configurations())
            if (wanted(part)) find_configuration(part.name);
        find_firmware();
        return std::move(out_);
    }

  private:
    bool wanted(const DriverPart& part) const {
        auto asked = [&](Capability one) {
            return capabilities_.contains(one) ||
                   (one == Capability::graphics && capabilities_.contains(Capability::display));
        };
        return asked(part.capability) || asked(part.also);
    }

    /// Where what the driver's root has at `path` lies on the node. There a link with an absolute path would lead out
    /// of that root.
    std::string source_of(const std::string& path) const {
        return root_.empty() ? path : root_ + tree_.resolved(path).value_or(path);
    }

    void add_folder(std::vector<std::string>& folders, const std::string& path) const {
        auto folder = tree_.resolved(path);
        if (folder && std::find(folders.begin(), folders.end(), *folder) == folders.end()) folders.push_back(*folder);
    }

    /// The folders of the driver's libraries: where the loader finds them, then the usual ones; and those of its
    /// programs.
    void find_folders() {
        LoaderCache cache;
        try {
            if (auto bytes = tree_.read("/etc/ld.so.cache"))
                cache = parse_loader_cache(*bytes, "/etc/ld.so.cache");
        } catch (const Error&) {
        }
        for (const plan::CachedLibrary& library : cache.libraries) {
            cached_.insert(library.name);
            if (!library.name.starts_with("libcuda.so") && !library.name.starts_with("libnvidia-ml.so")) continue;
            auto& folders = library.flags == loader_flags_32bit ? narrow_ : wide_;
            add_folder(folders, folder_of(library.path));
            if (auto real = tree_.resolved(library.path)) add_folder(folders, folder_of(*real));
        }
        for (const char* folder : library_folders) add_folder(wide_, folder);
        for (const char* folder : program_folders) add_folder(program_folders_, folder);
        if (capabilities_.contains(Capability::compat32))
            for (const char* folder : narrow_folders) add_folder(narrow_, folder);
    }

    /// That of the kernel module when it is there, else whatever is.
    void find_version() {
        for (const char* library : {"libcuda", "libnvidia-ml"})
            for (const std::string& folder : wide_) {
                std::string start = cat(folder, "/", library, ".so.");
                if (tree_.exists(start + module_version_)) {
                    out_.version = module_version_;
                    return;
                }
                auto real = tree_.resolved(start + "1");
                std::string version = real ? version_of(name_of(*real)) : "";
                if (!version.empty() && out_.version.empty()) out_.version = version;
            }
    }

    void find_libraries() {
        bool narrow = capabilities_.contains(Capability::compat32);
        for (const DriverPart& part : driver_libraries()) {
            if (!wanted(part)) continue;
            find_library(wide_, part.name, false);
            if (narrow) find_library(narrow_, part.name, true);
        }
        for (const DriverPart& part : companion_libraries()) {
            if (!wanted(part)) continue;
            find_companion(wide_, part.name, false);
            if (narrow) find_companion(narrow_, part.name, true);
        }
    }

    void find_library(const std::vector<std::string>& folders, const std::string& stem, bool narrow) {
        // libvdpau looks in a folder of this name alone, wherever the node has the file.
        std::string place = stem == "libvdpau_nvidia" ? "vdpau" : "";
        std::vector<const char*> places = {""};
        if (!place.empty()) places.push_back("vdpau");
        for (const std::string& folder : folders)
            for (const char* below : places) {
                std::string here = cat(folder, *below ? "/" : "", below, "/"),
                            name = cat(stem, ".so.", out_.version);
                if (!tree_.exists(here + name)) continue;
                DriverLibrary library{
                    .source = source_of(here + name), .name = name, .folder = place, .narrow = narrow, .links = {}};
                // Packages of 590 and newer have one file under its SONAME, and a link with the version.
                std::string file = tree_.link_target(here + name) ? tree_.resolved(here + name).value_or("") : "";
                for (const char* ending : library_link_endings())
                    if (std::string link = cat(stem, ".so", ending); has_link(folders, below, link, library, file))
                        library.links.push_back(link);
                out_.libraries.push_back(std::move(library));
                return;
            }
    }

    /// A name in one of the folders that leads to a file of that name. `file`: where the library lies when its own name
    /// is a link.
    bool has_link(const std::vector<std::string>& folders, const std::string& below, const std::string& link,
                  const DriverLibrary& library, const std::string& file) const {
        // What the loader does not know is no SONAME; to look for each in each folder would take a millisecond.
        if (!cached_.empty() && !link.ends_with(".so") && !cached_.contains(link)) return false;
        return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
            std::string path = cat(folder, below.empty() ? "" : "/", below, "/", link);
            if (path == file) return true;
            auto says = tree_.link_target(path);
            if (!says) return false;
            if (leads_to(*says, library)) return true;
            auto real = tree_.resolved(path);
            return real && (name_of(*real) == library.name || *real == file);
        });
    }

    /// The usual two: the file beside it, and the link to the file beside it that was found before.
    static bool leads_to(const std::string& text, const DriverLibrary& library) {
        return text == library.name ||
               std::find(library.links.begin(), library.links.end(), text) != library.links.end();
    }

    /// By the SONAME: "libnvidia-egl-gbm.so.1", which leads to libnvidia-egl-gbm.so.1.1.2.
    void find_companion(const std::vector<std::string>& folders, const std::string& soname, bool narrow) {
        for (const std::string& folder : folders) {
            auto real = tree_.resolved(cat(folder, "/", soname));
            if (!real) continue;
            std::string name = name_of(*real);
            // Under another name the loader would not take it for this library.
            if (!name.starts_with(soname)) name = soname;
            DriverLibrary library{.source = root_ + *real, .name = name, .folder = "", .narrow = narrow, .links = {}};
            if (name != soname) library.links.push_back(soname);
            out_.libraries.push_back(std::move(library));
            return;
        }
    }

    /// Where the driver has a folder of its own, a script in /usr/bin may start its program: one that the container
    /// could not run. It is taken only where the program itself is nowhere.
    void find_program(const std::string& name) {
        std::string found;
        for (const std::string& folder : program_folders_) {
            std::string path = cat(folder, "/", name);
            if (!tree_.exists(path)) continue;
            bool program = tree_.begins_with(path, "\177ELF");
            if (program || found.empty()) found = path;
            if (program) break;
        }
        if (!found.empty()) out_.programs.push_back({source_of(found), "/usr/bin/" + name, {}});
    }

    /// The driver's services run in its root, or on the node.
    void find_socket(const std::string& path) {
        if (!root_.empty() && tree_.exists(path))
            out_.sockets.push_back({source_of(path), path, {}});
        else if (node_.exists(path))
            out_.sockets.push_back({path, path, {}});
    }

    std::string imex_socket() const {
        auto text = tree_.read(imex_configuration);
        std::string path = text ? parse_imex_socket(*text) : "";
        return path.empty() || !plan::forbidden_target(path).empty() ? "" : path;
    }

    void find_configuration(const std::string& path) {
        if (!tree_.exists(path)) return;
        DriverFile file{source_of(path), path, {}};
        if (path.ends_with(".json")) file.names = parse_library_paths(tree_.read(path).value_or(""));
        out_.configurations.push_back(std::move(file));
    }

    /// Where the kernel looks, in its order.
    std::vector<std::string> firmware_places() const {
        auto setting = [&](const char* path) { return std::string(trimmed(node_.read(path).value_or(""))); };
        std::string set = setting("/sys/module/firmware_class/parameters/path"),
                    release = setting("/proc/sys/kernel/osrelease");
        const std::string usual = "/lib/firmware", updates = usual + "/updates";
        std::vector<std::string> out;
        if (set.starts_with('/')) out.push_back(set);
        for (const std::string& place : {updates, usual}) {
            if (!release.empty()) out.push_back(cat(place, "/", release));
            out.push_back(place);
        }
        return out;
    }

    void find_firmware() {
        const std::vector<std::string> places = firmware_places();
        for (const std::string& place : places) {
            std::string folder = cat("/nvidia/", module_version_);
            for (const std::string& name : tree_.list(place + folder))
                if (name.starts_with("gsp") && name.ends_with(".bin"))
                    out_.firmware.push_back({source_of(cat(place, folder, "/", name)),
                                             cat("/lib/firmware", folder, "/", name), {}});
            if (!out_.firmware.empty()) return;
        }
    }

    const Host &node_, &tree_;
    const std::string& root_;
    const std::string& module_version_;
    const std::set<Capability>& capabilities_;
    std::vector<std::string> wide_, narrow_, program_folders_;
    std::set<std::string> cached_;  ///< names that the loader knows
    DriverFiles out_;
};

}  // namespace

DriverFiles find_driver_files(const Host& host, const std::string& root, const std::string& module_version,
                              const std::set<Capability>& capabilities) {
    if (root.empty()) return Search(host, host, root, module_version, capabilities).run();
    try {
        Host tree(host.real(root));
        return Search(host, tree, root, module_version, capabilities).run();
    } catch (const SysError&) {
        // As good as empty: it is no directory, or not to be entered.
        return {};
    }
}

std::string parse_imex_socket(const std::string& text) {
    bool enabled = false;
    std::string path;
    for (const std::string& line : split(text, '\n')) {
        size_t equals = line.find('=');
        if (equals == std::string::npos) continue;
        std::string key(trimmed(line.substr(0, equals))), value(trimmed(line.substr(equals + 1)));
        if (key == "IMEX_CMD_ENABLED") enabled = value == "1";
        if (key == "IMEX_CMD_UNIX_DOMAIN_PATH") path = value;
    }
    return enabled && path.starts_with('/') ? plan::normalised(path) : "";
}

std::vector<std::string> parse_library_paths(const std::string& json) {
    std::vector<std::string> out;
    // Every other part stands between quotes.
    std::vector<std::string> parts = split(json, '"');
    for (size_t i = 1; i < parts.size(); i += 2)
        if (parts[i].starts_with('/') && name_of(parts[i]).starts_with("lib") &&
            parts[i].find('\\') == std::string::npos && plan::normalised(parts[i]) == parts[i])
            out.push_back(parts[i]);
    return out;
}

}  // namespace berth::hooks
