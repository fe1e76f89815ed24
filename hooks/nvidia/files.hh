// The parts of the NVIDIA driver that are files: libraries, programs, firmware, sockets and configurations.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/nvidia/request.hh"

namespace berth::hooks {

/// A library of the driver.
struct DriverLibrary {
    std::string source;              ///< path on the host, below the driver's root
    std::string name;                ///< "libcuda.so.570.86.15"
    std::string folder;              ///< below the library directory: "", "vdpau"
    bool narrow = false;             ///< for 32-bit programs
    std::vector<std::string> links;  ///< names that the host has for it: "libcuda.so.1", "libcuda.so"
};

/// Another file or directory.
struct DriverFile {
    std::string source;
    std::string target;
    std::vector<std::string> names;  ///< libraries that a configuration names with their path on the node
};

struct DriverFiles {
    std::string version;  ///< of the libraries; empty when there are none
    std::vector<DriverLibrary> libraries;
    std::vector<DriverFile> programs, firmware, sockets, configurations;
};

/// Looks for what `capabilities` need. `root` is the driver's ("" for the host's own); `module_version` is that of the
/// kernel module, whose firmware and libraries are wanted when several are installed. An ld.so.cache that cannot be
/// read is as good as none.
DriverFiles find_driver_files(const Host& host, const std::string& root, const std::string& module_version,
                              const std::set<Capability>& capabilities);

/// The socket by which nvidia-imex-ctl speaks to the daemon, of /etc/nvidia-imex/config.cfg; empty: none.
std::string parse_imex_socket(const std::string& text);
/// The absolute paths of libraries in a configuration of EGL or Vulkan. Some packages write them, for a node's own
/// folder of libraries.
std::vector<std::string> parse_library_paths(const std::string& json);

}  // namespace berth::hooks
