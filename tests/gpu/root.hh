// A root file system for containers on a node with a GPU, and what their programs say.
#pragma once
#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "hooks/nvidia/nvidia.hh"
#include "tests/kernel/named_support.hh"

namespace berth::gpu_test {

/// A GPU without persistence takes seconds to wake.
inline constexpr auto timeout = std::chrono::seconds(120);

/// A program that was built beside the tests.
std::string built(const std::string& name);

/// Output and errors of a program of the node as an ordinary user, and "|CODE".
std::string said(const std::vector<std::string>& words);

/// The driver of this node. Throws Error when there is none.
hooks::Driver driver_here();

/// The GPUs that the test user may open.
std::vector<hooks::Gpu> open_gpus();

std::set<std::string> uuids_of(const std::vector<hooks::Gpu>& gpus);
/// Each "GPU-..." in a text.
std::set<std::string> uuids_in(const std::string& text);

/// Names of the driver's libraries whose start the dynamic loader reports, with LD_DEBUG=files: "calling init: PATH".
std::set<std::string> loaded_in(const std::string& text);

std::string joined(const std::set<std::string>& names);

/// A root file system with the node's C library and what programs need of other libraries, and nothing of the driver.
class Root {
  public:
    Root();

    /// Copies a program of the node to /bin, and its libraries.
    void take(const std::string& program);
    /// The libraries that a program or library of the node needs, but for the driver's.
    void take_libraries(const std::string& program);
    /// A file of the image.
    void file(const std::string& path, const std::string& content) const;
    void link(const std::string& path, const std::string& target) const;
    /// A folder that is gone with the object.
    std::string scratch(const std::string& name) const;

    /// The words of `env VARIABLES berth run OPTIONS ROOT COMMAND`.
    std::vector<std::string> words(const std::vector<std::string>& variables, const std::vector<std::string>& command,
                                   const std::vector<std::string>& options = {}) const;
    /// Output and errors of such a run, and "|CODE".
    std::string run(const std::vector<std::string>& variables, const std::vector<std::string>& command,
                    const std::vector<std::string>& options = {}) const {
        return said(words(variables, command, options));
    }

  private:
    void copy(const std::string& path, const std::string& target) const;

    kernel_test::NamedScene scene_;
    std::string path_;
    std::string library_folder_;  ///< that of the C library
};

}  // namespace berth::gpu_test
