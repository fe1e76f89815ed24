// Checks on a real GPU: what is found of the driver beside what NVML says, and programs of the driver and of CUDA in
// containers of ours. As an ordinary user.
#include <filesystem>
#include <set>

#include "hooks/edits.hh"
#include "hooks/nvidia/nvidia.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::kernel_test;

namespace {

constexpr auto timeout = std::chrono::seconds(120);  // A GPU without persistence takes seconds to wake.

std::string here(const std::string& name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// Output and "|CODE" of a program of the node.
std::string said(const std::vector<std::string>& words) {
    return as_user([&] { return output_of(words); }, timeout).text;
}

/// The GPUs that this user may open.
std::vector<Gpu> open_gpus() {
    Host host;
    auto driver = find_driver(host, {});
    std::vector<Gpu> out;
    for (const Gpu& gpu : driver ? driver->gpus : std::vector<Gpu>())
        if (gpu.access == Access::allowed) out.push_back(gpu);
    return out;
}

/// What two sides say of a GPU.
std::string line(const std::string& bus, unsigned minor, const std::string& uuid, std::set<std::string> slices) {
    std::string out = cat(bus, ' ', minor, ' ', uuid);
    for (const std::string& slice : slices) out += " " + slice;
    return out;
}

/// A root file system with what the programs need of the node's C library, and nothing of the driver.
class Root {
  public:
    Root() : path_(scene_.folder / "root") {
        for (const char* folder : {"usr", "usr/bin", "bin", "lib64", "etc", "tmp", "dev", "proc", "sys", "run"})
            std::filesystem::create_directories(path_ + "/" + folder);
        for (const char* file : {"/etc/debian_version", "/etc/redhat-release"})
            if (std::filesystem::exists(file)) copy(file);
        take_libraries("/bin/ls");
        for (const DriverFile& program : find_driver_files(Host(), "", "", {Capability::utility}).programs)
            take_libraries(program.source);
    }

    void take(const std::string& program) {
        std::filesystem::copy_file(program, path_ + "/bin/" + std::filesystem::path(program).filename().string());
        take_libraries(program);
    }

    /// Output of `berth run` with these variables, and "|CODE".
    std::string run(const std::vector<std::string>& variables, const std::vector<std::string>& command) const {
        std::vector<std::string> words{"run", path_};
        words.insert(words.end(), command.begin(), command.end());
        words = scene_.command("berth", words);
        words.insert(words.begin() + 2, variables.begin(), variables.end());
        std::vector<std::string> shell{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
        shell.insert(shell.end(), words.begin(), words.end());
        return said(shell);
    }

  private:
    void copy(const std::string& path) {
        std::string target = path_ + path;
        std::filesystem::create_directories(std::filesystem::path(target).parent_path());
        std::filesystem::copy_file(path, target, std::filesystem::copy_options::skip_existing);
    }

    /// Of the lines of ldd: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)".
    void take_libraries(const std::string& program) {
        for (const std::string& text : split(said({"/usr/bin/ldd", program}), '\n'))
            for (const std::string& word : split(text, ' '))
                if (std::string path(trimmed(word)); path.starts_with('/') &&
                                                     path.find("nvidia") == std::string::npos &&
                                                     path.find("libcuda.so") == std::string::npos)
                    copy(path);
    }

    NamedScene scene_;
    std::string path_;
};

std::set<std::string> uuids_in(const std::string& text) {
    std::set<std::string> out;
    for (size_t at = text.find("GPU-"); at != std::string::npos; at = text.find("GPU-", at + 1))
        out.insert(text.substr(at, 40));
    return out;
}

std::set<std::string> uuids_of(const std::vector<Gpu>& gpus) {
    std::set<std::string> out;
    for (const Gpu& gpu : gpus) out.insert(gpu.uuid);
    return out;
}

}  // namespace

TEST_CASE("gpu: what the driver's files say is what NVML says", "[gpu]") {
    Host host;
    auto driver = find_driver(host, {});
    REQUIRE(driver);
    NvmlReport report = parse_nvml(nvml_text("libnvidia-ml.so.1"));
    CHECK(driver->module_version == report.driver);
    if (!driver->cuda.empty()) CHECK(driver->cuda == report.cuda);
    CHECK(find_driver_files(host, "", driver->module_version, {Capability::compute, Capability::utility}).version ==
          driver->module_version);
    std::set<std::string> found, told;
    for (const Gpu& gpu : open_gpus()) {
        std::set<std::string> slices;
        for (const Slice& slice : gpu.slices)
            if (slice.open) slices.insert(cat(slice.gpu_instance, "/", slice.compute_instance));
        found.insert(line(normal_bus(gpu.bus), gpu.minor, gpu.uuid, slices));
    }
    for (const NvmlGpu& gpu : report.gpus) {
        std::set<std::string> slices;
        for (const NvmlSlice& slice : gpu.slices) slices.insert(cat(slice.gpu_instance, "/", slice.compute_instance));
        told.insert(line(gpu.bus, gpu.minor, gpu.uuid, slices));
    }
    CHECK(found == told);
}

TEST_CASE("gpu: nvidia-smi in a container lists the GPUs that are given to it", "[gpu]") {
    Root root;
    std::vector<Gpu> gpus = open_gpus();
    REQUIRE_FALSE(gpus.empty());
    std::string all = root.run({"NVIDIA_VISIBLE_DEVICES=all"}, {"nvidia-smi", "-L"});
    INFO(all);
    CHECK(all.ends_with("|0"));
    CHECK(uuids_in(all) == uuids_of(gpus));
    std::string last = root.run({"NVIDIA_VISIBLE_DEVICES=" + gpus.back().uuid}, {"nvidia-smi", "-L"});
    INFO(last);
    CHECK(uuids_in(last) == std::set<std::string>{gpus.back().uuid});
    CHECK(uuids_in(root.run({"NVIDIA_VISIBLE_DEVICES=0"}, {"nvidia-smi", "-L"})) ==
          std::set<std::string>{gpus.front().uuid});
}

TEST_CASE("gpu: without devices there is the driver alone, or nothing of it", "[gpu]") {
    Root root;
    std::string driver_only = root.run({"NVIDIA_VISIBLE_DEVICES=none"}, {"nvidia-smi", "-L"});
    INFO(driver_only);
    CHECK_FALSE(driver_only.ends_with("|127"));
    CHECK(uuids_in(driver_only).empty());
    CHECK(root.run({"NVIDIA_VISIBLE_DEVICES=void"}, {"nvidia-smi", "-L"}).ends_with("|127"));
}

#ifdef BERTH_NVCC
TEST_CASE("gpu: a CUDA program in a container computes on the GPUs that it is given", "[gpu]") {
    Root root;
    root.take(here("gpu_sum"));
    std::vector<Gpu> gpus = open_gpus();
    REQUIRE_FALSE(gpus.empty());
    std::string all = root.run({"NVIDIA_VISIBLE_DEVICES=all"}, {"/bin/gpu_sum"});
    INFO(all);
    CHECK(all.ends_with("|0"));
    CHECK(uuids_in(all) == uuids_of(gpus));
    CHECK(all.find("WRONG") == std::string::npos);
    std::string chosen =
        root.run({"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=" + gpus.back().uuid}, {"/bin/gpu_sum"});
    INFO(chosen);
    CHECK(chosen == gpus.back().uuid + " right\n|0");
    std::string none = root.run({"NVIDIA_VISIBLE_DEVICES=none"}, {"/bin/gpu_sum"});
    INFO(none);
    CHECK_FALSE(none.ends_with("|0"));
}
#endif
