// OpenGL ES, Vulkan, OpenCL and decoding of video in containers on a real GPU, each where its headers were there when
// this was built. As an ordinary user, without a display.
#include <algorithm>

#include "runtime/base/text.hh"
#include "tests/gpu/root.hh"

#if defined(BERTH_EGL) || defined(BERTH_VULKAN) || defined(BERTH_OPENCL) || defined(BERTH_VIDEO)
using namespace berth;
using namespace berth::gpu_test;

namespace {

/// What a program says in a container with these capabilities, and "|CODE".
std::string with(const Root& root, const std::string& capabilities, const std::string& program) {
    // The loader of Vulkan says why it has no driver.
    return root.run({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=" + capabilities}, {"/bin/" + program},
                    {"--env", "VK_LOADER_DEBUG=error"});
}

/// Whether each GPU has a line of its own, and each line ends so.
bool all_right(const std::string& said_by) {
    if (!said_by.ends_with("\n|0")) return false;
    std::vector<std::string> lines = split(said_by.substr(0, said_by.size() - 3), '\n');
    return lines.size() == open_gpus().size() &&
           std::all_of(lines.begin(), lines.end(), [](const std::string& line) { return line.ends_with("right"); });
}

/// A program of graphics does its work with that capability, and has nothing to do it with without; what it says.
[[maybe_unused]] std::string checked_graphics(const Root& root, const std::string& program) {
    std::string done = with(root, "graphics", program), without = with(root, "compute,utility", program);
    INFO(done);
    INFO(without);
    CHECK(all_right(done));
    CHECK(without.find("right") == std::string::npos);
    return done;
}

}  // namespace
#endif

#ifdef BERTH_EGL
TEST_CASE("gpu: OpenGL ES draws without a display, where graphics are asked for", "[gpu]") {
    Root root;
    root.take(built("gpu_egl"));
    CHECK(checked_graphics(root, "gpu_egl").starts_with("NVIDIA"));
}
#endif

#ifdef BERTH_VULKAN
TEST_CASE("gpu: Vulkan computes on the GPUs that are given, where graphics are asked for", "[gpu]") {
    Root root;
    root.take(built("gpu_vulkan"));
    // The driver's part for Vulkan is that for X11, whose libraries are the image's, and it may load libEGL.
    root.take(built("gpu_egl"));
    hooks::Driver driver = driver_here();
    for (const hooks::DriverLibrary& library :
         hooks::find_driver_files(hooks::Host(), "", driver.module_version, {hooks::Capability::graphics}).libraries)
        if (library.name.starts_with("libGLX_nvidia")) root.take_libraries(library.source);
    CHECK(uuids_in(checked_graphics(root, "gpu_vulkan")) == uuids_of(open_gpus()));
}
#endif

#ifdef BERTH_OPENCL
TEST_CASE("gpu: OpenCL of an image computes", "[gpu]") {
    Root root;
    root.take(built("gpu_opencl"));
    // As in the images of NVIDIA: a driver's packages have it, its installer has not.
    root.file("/etc/OpenCL/vendors/nvidia.icd", "libnvidia-opencl.so.1\n");
    std::string computed = with(root, "compute", "gpu_opencl");
    INFO(computed);
    CHECK(all_right(computed));
}
#endif

#ifdef BERTH_VIDEO
TEST_CASE("gpu: the video engine decodes, where video is asked for", "[gpu]") {
    Root root;
    root.take(built("gpu_video"));
    std::string decoded = with(root, "compute,video", "gpu_video");
    INFO(decoded);
    CHECK(all_right(decoded));
    std::string without = with(root, "compute,utility", "gpu_video");
    INFO(without);
    CHECK(without.find("libnvcuvid.so.1") != std::string::npos);
}
#endif
