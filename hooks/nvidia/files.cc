#include "hooks/nvidia/files.hh"

#include <algorithm>
#include <array>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/loader_cache.hh"

namespace berth::hooks {

namespace {

struct Part {
    Capability capability;
    const char* name;
};

// The names of NVIDIA's driver README, "Installed components".
constexpr Part libraries[] = {
    {Capability::utility, "libnvidia-ml"},
    {Capability::utility, "libnvidia-cfg"},
    {Capability::utility, "libnvidia-nscq"},
    {Capability::compute, "libcuda"},
    {Capability::compute, "libcudadebugger"},
    {Capability::compute, "libnvidia-opencl"},
    {Capability::compute, "libnvidia-gpucomp"},
    {Capability::compute, "libnvidia-ptxjitcompiler"},
    {Capability::compute, "libnvidia-fatbinaryloader"},
    {Capability::compute, "libnvidia-allocator"},
    {Capability::compute, "libnvidia-compiler"},
    {Capability::compute, "libnvidia-pkcs11"},
    {Capability::compute, "libnvidia-pkcs11-openssl3"},
    {Capability::compute, "libnvidia-nvvm"},
    {Capability::compute, "libnvidia-tileiras"},
    {Capability::video, "libvdpau_nvidia"},
    {Capability::video, "libnvidia-encode"},
    {Capability::video, "libnvidia-opticalflow"},
    {Capability::video, "libnvcuvid"},
    {Capability::graphics, "libnvidia-eglcore"},
    {Capability::graphics, "libnvidia-glcore"},
    {Capability::graphics, "libnvidia-tls"},
    {Capability::graphics, "libnvidia-glsi"},
    {Capability::graphics, "libnvidia-fbc"},
    {Capability::graphics, "libnvidia-ifr"},
    {Capability::graphics, "libnvidia-rtcore"},
    {Capability::graphics, "libnvoptix"},
    {Capability::graphics, "libGLX_nvidia"},
    {Capability::graphics, "libEGL_nvidia"},
    {Capability::graphics, "libGLESv2_nvidia"},
    {Capability::graphics, "libGLESv1_CM_nvidia"},
    {Capability::graphics, "libnvidia-glvkspirv"},
    {Capability::graphics, "libnvidia-cbl"},
    {Capability::ngx, "libnvidia-ngx"},
};
constexpr Part programs[] = {
    {Capability::utility, "nvidia-smi"},
    {Capability::utility, "nvidia-debugdump"},
    {Capability::utility, "nvidia-persistenced"},
    {Capability::utility, "nv-fabricmanager"},
    {Capability::compute, "nvidia-cuda-mps-control"},
    {Capability::compute, "nvidia-cuda-mps-server"},
};
constexpr Part sockets[] = {{Capability::utility, "/run/nvidia-persistenced/socket"},
                            {Capability::utility, "/run/nvidia-fabricmanager/socket"}};
constexpr Part configurations[] = {
    {Capability::compute, "/etc/OpenCL/vendors/nvidia.icd"},
    {Capability::graphics, "/usr/share/glvnd/egl_vendor.d/10_nvidia.json"},
    {Capability::graphics, "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json"},
    {Capability::graphics, "/usr/share/egl/egl_external_platform.d/10_nvidia_wayland.json"},
    {Capability::graphics, "/usr/share/nvidia/nvoptix.bin"},
    {Capability::graphics, "/usr/share/vulkan/icd.d/nvidia_icd.json"},
    {Capability::graphics, "/etc/vulkan/icd.d/nvidia_icd.json"},
    {Capability::graphics, "/usr/share/vulkan/implicit_layer.d/nvidia_layers.json"},
    {Capability::graphics, "/etc/vulkan/implicit_layer.d/nvidia_layers.json"},
};
constexpr const char* library_folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib",
    "/usr/local/nvidia/lib64",   "/usr/local/nvidia/lib",      "/lib64",
};
constexpr const char* narrow_folders[] = {"/usr/lib/i386-linux-gnu", "/usr/lib32", "/usr/lib"};
constexpr const char* program_folders[] = {"/usr/bin", "/usr/sbin", "/bin", "/usr/local/bin", "/usr/local/nvidia/bin",
                                           "/opt/bin"};
// Of SONAMEs, and the one for linking.
constexpr const char* link_endings[] = {".1", ".0", ".2", ".4", ""};

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
    Search(const Host& host, const std::string& root, const std::string& module_version,
           const std::set<Capability>& capabilities)
        : host_(host), root_(root), module_version_(module_version), capabilities_(capabilities) {}

    DriverFiles run() {
        find_folders();
        find_version();
        if (!out_.version.empty()) find_libraries();
        for (const Part& part : programs)
            if (wanted(part)) find_program(part.name);
        for (const Part& part : sockets)
            if (wanted(part) && host_.exists(part.name)) out_.sockets.push_back({part.name, part.name});
        for (const Part& part : configurations)
            if (wanted(part) && host_.exists(root_ + part.name))
                out_.configurations.push_back({root_ + part.name, part.name});
        find_firmware();
        return std::move(out_);
    }

  private:
    bool wanted(const Part& part) const {
        return capabilities_.contains(part.capability) ||
               (part.capability == Capability::graphics && capabilities_.contains(Capability::display));
    }

    void add_folder(std::vector<std::string>& folders, const std::string& path) const {
        auto real = host_.resolved(root_ + path);
        if (!real || !real->starts_with(root_)) return;
        std::string folder = real->substr(root_.size());
        if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
    }

    /// The folders of the driver's libraries: where the loader finds them, then the usual ones; and those of its
    /// programs.
    void find_folders() {
        plan::LoaderCache cache;
        try {
            if (auto bytes = host_.read(root_ + "/etc/ld.so.cache"))
                cache = plan::parse_loader_cache(*bytes, "/etc/ld.so.cache");
        } catch (const Error&) {
        }
        for (const plan::CachedLibrary& library : cache.libraries) {
            cached_.insert(library.name);
            if (!library.name.starts_with("libcuda.so") && !library.name.starts_with("libnvidia-ml.so")) continue;
            auto& folders = library.flags == plan::loader_flags_32bit ? narrow_ : wide_;
            add_folder(folders, folder_of(library.path));
            if (auto real = host_.resolved(root_ + library.path); real && real->starts_with(root_))
                add_folder(folders, folder_of(real->substr(root_.size())));
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
                std::string start = cat(root_, folder, "/", library, ".so.");
                if (host_.exists(start + module_version_)) {
                    out_.version = module_version_;
                    return;
                }
                auto real = host_.resolved(start + "1");
                std::string version = real ? version_of(name_of(*real)) : "";
                if (!version.empty() && out_.version.empty()) out_.version = version;
            }
    }

    void find_libraries() {
        for (const Part& part : libraries) {
            if (!wanted(part)) continue;
            find_library(wide_, part.name, false);
            if (capabilities_.contains(Capability::compat32)) find_library(narrow_, part.name, true);
        }
    }

    void find_library(const std::vector<std::string>& folders, const std::string& stem, bool narrow) {
        // Distributions have the one of VDPAU in a folder of its own.
        std::vector<const char*> places = {""};
        if (stem == "libvdpau_nvidia") places.push_back("vdpau");
        for (const std::string& folder : folders)
            for (const char* below : places) {
                std::string here = cat(root_, folder, *below ? "/" : "", below, "/"),
                            name = cat(stem, ".so.", out_.version);
                if (!host_.exists(here + name)) continue;
                DriverLibrary library{
                    .source = here + name, .name = name, .folder = below, .narrow = narrow, .links = {}};
                for (const char* ending : link_endings)
                    if (std::string link = cat(stem, ".so", ending); has_link(folders, below, link, library))
                        library.links.push_back(link);
                out_.libraries.push_back(std::move(library));
                return;
            }
    }

    /// A name in one of the folders that leads to a file of that name.
    bool has_link(const std::vector<std::string>& folders, const std::string& below, const std::string& link,
                  const DriverLibrary& library) const {
        // What the loader does not know is no SONAME; to look for each in each folder would take a millisecond.
        if (!cached_.empty() && !link.ends_with(".so") && !cached_.contains(link)) return false;
        return std::any_of(folders.begin(), folders.end(), [&](const std::string& folder) {
            std::string path = cat(root_, folder, below.empty() ? "" : "/", below, "/", link);
            auto says = host_.link_target(path);
            if (!says) return false;
            if (leads_to(*says, library)) return true;
            auto real = host_.resolved(path);
            return real && name_of(*real) == library.name;
        });
    }

    /// The usual two: the file beside it, and the link to the file beside it that was found before.
    static bool leads_to(const std::string& text, const DriverLibrary& library) {
        return text == library.name ||
               std::find(library.links.begin(), library.links.end(), text) != library.links.end();
    }

    /// Where the driver has a folder of its own, a script in /usr/bin may start its program: one that the container
    /// could not run. It is taken only where the program itself is nowhere.
    void find_program(const std::string& name) {
        std::string found;
        for (const std::string& folder : program_folders_) {
            std::string path = cat(root_, folder, "/", name);
            if (!host_.exists(path)) continue;
            bool program = host_.begins_with(path, "\177ELF");
            if (program || found.empty()) found = path;
            if (program) break;
        }
        if (!found.empty()) out_.programs.push_back({found, "/usr/bin/" + name});
    }

    void find_firmware() {
        std::string set = std::string(trimmed(host_.read("/sys/module/firmware_class/parameters/path").value_or("")));
        std::vector<std::string> places = {"/lib/firmware/updates", "/lib/firmware"};
        if (set.starts_with('/')) places.insert(places.begin(), set);
        for (const std::string& place : places) {
            std::string folder = cat("/nvidia/", module_version_);
            for (const std::string& name : host_.list(root_ + place + folder))
                if (name.starts_with("gsp") && name.ends_with(".bin"))
                    out_.firmware.push_back(
                        {cat(root_, place, folder, "/", name), cat("/lib/firmware", folder, "/", name)});
            if (!out_.firmware.empty()) return;
        }
    }

    const Host& host_;
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
    return Search(host, root, module_version, capabilities).run();
}

}  // namespace berth::hooks
