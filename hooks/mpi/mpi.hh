// The node's MPI, and what it needs for the node's network, in place of the image's.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/elf.hh"
#include "hooks/host.hh"
#include "hooks/makers.hh"
#include "hooks/rootfs.hh"
#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"

namespace berth::hooks {

/// A shared library of the node or of an image.
struct Library {
    std::string file;  ///< with all links followed, as its version is in its name
    SharedObject object;
    /// The functions that programs may call; asked only when they matter.
    std::function<std::set<std::string>()> functions;
};

/// One that berth.conf lists.
struct HostLibrary : Library {
    std::string name;  ///< by which programs ask for it: "libmpi.so.12"
};

struct MpiFacts {
    std::vector<HostLibrary> libraries, dependencies;
    /// What the image has of a SONAME: each file once, the one that a program would get first.
    std::function<std::vector<Library>(const std::string& name)> image;
    /// Whether mpi.mounts brings what a library finds by its own run path.
    std::function<bool(const HostLibrary& library, const std::string& needed)> is_mounted;
};

struct MpiDecision {
    struct Replaced {
        std::string file;  ///< of the image
        std::string reason;
    };
    struct Placed {
        const HostLibrary* library = nullptr;  ///< of the facts
        std::vector<Replaced> over;            ///< empty: the image has none of the name
        std::string reason;                    ///< when it is added
        /// Names by which the node's other libraries may ask for it, where nothing else has them.
        std::vector<std::string> aliases = {};
    };
    /// nothing_to_replace: the image has no MPI that berth knows; unfit: it keeps its own.
    enum class Outcome { placed, nothing_to_replace, unfit };
    Outcome outcome = Outcome::placed;
    std::string why;  ///< of the two others
    std::vector<Placed> placed;
};

/// All of the node's libraries or none: those of one MPI call each other by functions that no ABI promises. Pure.
MpiDecision decide_mpi(const MpiFacts& facts, plan::MpiCheck check);

/// True for what programs call of an MPI in C, Fortran or C++, and not for its extensions (MPIX_).
bool is_mpi_function(std::string_view symbol);

/// What berth.conf lists, as this node has it. `faults` gets a line for each entry that cannot be used.
struct ListedLibraries {
    std::vector<HostLibrary> libraries, dependencies;
    std::vector<std::string> faults;
};
ListedLibraries listed_libraries(const Host& host, const plan::MpiSettings& settings);

/// The paths of `entries` on this node, whose last component may be a pattern. A path that is missing is kept.
std::vector<std::string> expanded(const Host& host, const std::vector<std::string>& entries);

/// Where programs of an image find a library: its LD_LIBRARY_PATH, its loader's cache, the usual folders, and those
/// beside the folders of its PATH, where programs with a run path of their own have theirs.
class ImageLibraries {
  public:
    /// `variables` (NAME=VALUE) are those of the image. The image has to outlive this.
    ImageLibraries(const Rootfs& image, const std::vector<std::string>& variables);
    /// Those for this machine.
    const std::vector<Library>& find(const std::string& name);

  private:
    std::vector<Library> look_for(const std::string& name) const;

    const Rootfs& image_;
    std::vector<std::string> first_, usual_;                   ///< folders
    std::map<std::string, std::vector<std::string>> cached_;  ///< paths by name
    std::map<std::string, std::vector<Library>> found_;
};

/// The whole hook, for who wants it.
plan::ContainerEdits mpi_hook(const Host& host, const Rootfs& image, const plan::MpiSettings& settings,
                              const std::vector<std::string>& image_variables, bool asked_by_user);

/// For `berth doctor`.
DeviceStatus mpi_status(const plan::MpiSettings& settings, const ListedLibraries& listed);

}  // namespace berth::hooks
