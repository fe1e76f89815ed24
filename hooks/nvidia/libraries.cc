// Where the NVIDIA driver's libraries go in the container, and how they are found there.
#include <algorithm>
#include <map>

#include "hooks/edits.hh"
#include "hooks/nvidia/nvidia.hh"
#include "runtime/base/text.hh"
#include "runtime/host/loader_cache.hh"

namespace berth::hooks {

namespace {

class LibraryEdits {
  public:
    LibraryEdits(std::vector<plan::Edit>& edits, const Host& host, const LibraryPlace& place)
        : edits_(edits), host_(host), place_(place) {}

    void add(const DriverLibrary& library) {
        std::string folder = library.narrow ? place_.narrow_folder : place_.folder;
        if (!library.folder.empty()) folder += "/" + library.folder;
        edits_.push_back(
            file_edit(host_, library.source, folder + "/" + library.name, by_nvidia, "a library of the driver"));
        know(library.name, folder, library.narrow);
        if (library.name.starts_with("libvdpau_nvidia.so.")) link(folder + "/libvdpau_nvidia.so.1", library.name);
        if (!library.narrow) add_fixed_links(library, folder);
        for (const std::string& name : library.links) {
            link(folder + "/" + name, library.name);
            know(name, folder, library.narrow);
        }
    }

    /// A path by which a configuration of the node names a library, where the container has it elsewhere.
    void name(const std::string& path) {
        auto found = found_.find({path.substr(path.rfind('/') + 1), loader_flags()});
        if (found != found_.end() && found->second != path) link(path, found->second);
    }

    /// Libraries of the image that come before the driver's.
    void prefer(const std::string& name, const std::string& path) { found_[{name, loader_flags()}] = path; }

    void finish() {
        plan::LoaderLibraries added;
        for (const auto& [key, path] : found_)
            added.libraries.push_back({.flags = key.second, .name = key.first, .path = path});
        added.musl_path = place_.musl_path;
        added.folder = place_.folder;
        edits_.push_back({added, by_nvidia, "how the loader finds them"});
    }

  private:
    void know(const std::string& name, const std::string& folder, bool narrow) {
        found_[{name, narrow ? loader_flags_32bit : loader_flags()}] = folder + "/" + name;
    }

    void link(const std::string& path, const std::string& target) {
        if (linked_.insert(path).second)
            edits_.push_back({plan::Symlink{path, target, true}, by_nvidia, "a name of a driver's library"});
    }

    /// Names that programs ask for whether or not the host has them.
    void add_fixed_links(const DriverLibrary& library, const std::string& folder) {
        auto is = [&](const char* stem) { return library.name.starts_with(cat(stem, ".so.")); };
        for (const char* stem : {"libcuda", "libnvidia-ml"})
            if (is(stem)) {
                link(cat(folder, "/", stem, ".so.1"), library.name);
                know(cat(stem, ".so.1"), folder, false);
            }
        if (is("libcuda")) link(folder + "/libcuda.so", "libcuda.so.1");
        if (is("libnvidia-opticalflow")) link(folder + "/libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1");
        if (is("libnvidia-vulkan-producer")) link(folder + "/libnvidia-vulkan-producer.so", library.name);
        if (is("libGLX_nvidia")) link(folder + "/libGLX_indirect.so.0", library.name);
        if (is("libnvidia-allocator")) link(folder + "/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1");
    }

    std::vector<plan::Edit>& edits_;
    const Host& host_;
    const LibraryPlace& place_;
    std::map<std::pair<std::string, int32_t>, std::string> found_;
    std::set<std::string> linked_;
};

}  // namespace

void add_library_edits(std::vector<plan::Edit>& edits, const Host& host, const Rootfs& image, const DriverFiles& files,
                       const std::string& compat) {
    LibraryPlace place = library_place(image);
    LibraryEdits added(edits, host, place);
    for (const DriverLibrary& library : files.libraries) added.add(library);
    for (const DriverFile& file : files.configurations)
        for (const std::string& path : file.names) added.name(path);
    // A name is enough: the loader follows the link. What an image has of other names there is nobody's business.
    if (!compat.empty())
        for (const std::string& name : image.list(compat))
            if (name.starts_with("lib") && name.find(".so.") != std::string::npos)
                added.prefer(name, compat + "/" + name);
    added.finish();
}

}  // namespace berth::hooks
