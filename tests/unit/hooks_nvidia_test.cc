#include <algorithm>

#include "hooks/makers.hh"
#include "runtime/base/error.hh"
#include "tests/catch.hh"
#include "tests/fixtures/container_edits.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/fixtures/recorded_node.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

std::string visible(const plan::ContainerEdits& made, const std::vector<bool>& accessible,
                    const std::vector<std::string>& job) {
    auto open = [&](const std::vector<plan::VisibleDevice>&) { return accessible; };
    for (const auto& [name, value] : plan::visible_device_changes(tasks_choose_from(made), open, job))
        if (name == "CUDA_VISIBLE_DEVICES") return value;
    return {};
}

std::string loaded(const plan::ContainerEdits& made) {
    for (const plan::Edit& edit : made.edits) {
        const auto* added = std::get_if<plan::LoaderLibraries>(&edit.action);
        if (added && !added->musl_path.empty()) return added->musl_path;
        for (const plan::CachedLibrary& library : added ? added->libraries : std::vector<plan::CachedLibrary>())
            if (library.name == "libcuda.so.1" && library.flags == loader_flags()) return library.path;
    }
    return "none";
}

std::string params(const FakeHost& host, const plan::ContainerEdits& made) {
    const std::string path = "/proc/driver/nvidia/params", key = "ModifyDeviceFiles: ";
    for (const plan::Edit& edit : made.edits) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        const auto* file = std::get_if<plan::DropIn>(&edit.action);
        std::string text = file && file->path == path       ? file->content
                           : mount && mount->target == path ? host.read(path).value_or("")
                                                            : "";
        if (size_t at = text.find(key); at != std::string::npos) return text.substr(at + key.size(), 1);
    }
    return "absent";
}

GpuView view_of(const FakeHost& host, const GpuScene& scene, const plan::ContainerEdits& made) {
    std::set<std::string> libraries;
    for (const std::string& name : targets_below(made, scene.folder))
        if (name.ends_with(driver_version) || name.ends_with("580.65.06")) libraries.insert(library_stem(name));
    for (const std::string& name : targets_below(made, "/usr/lib"))
        if (name.find('/') == std::string::npos) libraries.insert("32:" + library_stem(name));
    return {nodes_text(targets_below(made, "/dev")),
            proc_text(targets_below(made, "/proc/driver/nvidia")),
            joined(libraries),
            joined(targets_below(made, "/usr/bin")),
            loaded(made),
            params(host, made),
            visible(made, std::vector<bool>(made.devices.size(), true), scene.job)};
}

}  // namespace

TEST_CASE("nvidia: each scene has exactly its files, or its error", "[hooks][nvidia]") {
    for (const GpuScene& scene : gpu_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image(scene.files);
        plan::ContainerEdits made;
        std::string error = reason_of([&] { made = asked(host, image, scene.image, scene.job, scene.required); });
        CHECK_THAT(error, Catch::Contains(scene.error.empty() ? "no error" : scene.error));
        if (!scene.error.empty()) continue;
        CHECK(view_of(host, scene, made).text() == scene.view().text());
        CHECK((made.warnings.empty() ? "" : made.warnings[0]).find(scene.warning) != std::string::npos);
        CHECK(made.warnings.size() == (scene.warning.empty() ? 0 : 1));
        std::vector<bool> later;
        for (const plan::VisibleDevice& device : made.devices)
            later.push_back(std::none_of(device.nodes.begin(), device.nodes.end(), [&](const std::string& node) {
                return std::count(scene.denied_later.begin(), scene.denied_later.end(), node);
            }));
        if (!scene.denied_later.empty()) CHECK(visible(made, later, scene.job) == scene.visible_later);
    }
}

TEST_CASE("nvidia: NVML is asked for what a given GPU needs, and for nothing else", "[hooks][nvidia]") {
    auto times = [](const std::function<void(FakeHost&)>& change, const std::vector<std::string>& job) {
        FakeHost host;
        eight(host, false);
        host.driver("700.10", "700.10");
        change(host);
        FakeImage image;
        unsigned asked = 0;
        auto nvml = [&](const auto&) {
            ++asked;
            NvmlReport report = nvml_of(host);
            report.cuda = "14.0";
            return report;
        };
        NvidiaRequest request = nvidia_request({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=13"}, job);
        nvidia_hook(host, image, request, {}, nvml);
        return asked;
    };
    auto nothing = [](FakeHost&) {};
    // The CUDA of so new a driver is known to NVML only.
    CHECK(times(nothing, {}) == 1);
    CHECK(times(nothing, {"NVIDIA_DISABLE_REQUIRE=1"}) == 0);
    CHECK(times(nothing, {"NVIDIA_VISIBLE_DEVICES=none"}) == 0);
    CHECK(times([](FakeHost& host) { host.allow_only("/dev/nvidia", {}); }, {}) == 0);
}

TEST_CASE("nvidia: the driver's other files", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    CHECK(joined(targets_below(asked(host, image, all_gpus, {}), "/lib/firmware")) == "nvidia/570.86.15/gsp_ga10x.bin");
    CHECK(joined(targets_below(asked(host, image, all_gpus, {}), "/etc")) == "OpenCL/vendors/nvidia.icd");
}

TEST_CASE("nvidia: a script in front of the driver's program is not taken for it", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    auto source = [&] {
        FakeImage image;
        for (const plan::Edit& edit : asked(host, image, all_gpus, {}).edits)
            if (auto* mount = std::get_if<plan::Mount>(&edit.action); mount && mount->target == "/usr/bin/nvidia-smi")
                return mount->source.substr(host.path().size());
        return std::string("none");
    };
    host.file("/usr/bin/nvidia-smi", "#!/bin/sh\nexec /usr/local/nvidia/bin/nvidia-smi \"$@\"\n");
    host.file("/usr/local/nvidia/bin/nvidia-smi", "\177ELF, the program");
    CHECK(source() == "/usr/local/nvidia/bin/nvidia-smi");
    host.remove("/usr/local/nvidia/bin");
    CHECK(source() == "/usr/bin/nvidia-smi");
}

TEST_CASE("nvidia: a recorded node whose driver has a folder of its own (h100-real)", "[hooks][nvidia]") {
    FakeHost host;
    RecordedNode(host, "h100-real");
    FakeImage image;
    plan::ContainerEdits made = asked(host, image, {"NVIDIA_VISIBLE_DEVICES=all"}, {"NVIDIA_DRIVER_CAPABILITIES=all"});
    CHECK(made.warnings.empty());
    std::set<std::string> libraries, sources, programs;
    for (const plan::Edit& edit : made.edits) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        if (!mount || !mount->source.starts_with(host.path())) continue;
        std::string source = mount->source.substr(host.path().size());
        if (mount->target.ends_with(".so.580.159.04")) {
            libraries.insert(library_stem(mount->target.substr(mount->target.rfind('/') + 1)));
            sources.insert(source.substr(0, source.rfind('/')));
        }
        if (mount->target.starts_with("/usr/bin/")) programs.insert(source);
    }
    CHECK(joined(libraries) ==
          "libEGL_nvidia libGLESv1_CM_nvidia libGLESv2_nvidia libGLX_nvidia libcuda libcudadebugger libnvcuvid "
          "libnvidia-allocator libnvidia-cfg libnvidia-eglcore libnvidia-encode libnvidia-fbc libnvidia-glcore "
          "libnvidia-glsi libnvidia-glvkspirv libnvidia-gpucomp libnvidia-ml libnvidia-nvvm libnvidia-opencl "
          "libnvidia-opticalflow libnvidia-pkcs11-openssl3 libnvidia-ptxjitcompiler libnvidia-rtcore libnvidia-tls "
          "libnvoptix libvdpau_nvidia");
    CHECK(joined(sources) == "/usr/local/nvidia/lib64");
    CHECK(joined(programs) ==
          "/usr/local/nvidia/bin/nvidia-cuda-mps-control /usr/local/nvidia/bin/nvidia-cuda-mps-server "
          "/usr/local/nvidia/bin/nvidia-debugdump /usr/local/nvidia/bin/nvidia-persistenced "
          "/usr/local/nvidia/bin/nvidia-smi");
    // The other capability (cap1, "config") is root's.
    CHECK(nodes_text(targets_below(made, "/dev")) == "nvidia0");
    CHECK(proc_text(targets_below(made, "/proc/driver/nvidia")) == "gpus/0000:00:06.0");
    CHECK(joined(targets_below(made, "/lib/firmware")) ==
          "nvidia/580.159.04/gsp_ga10x.bin nvidia/580.159.04/gsp_tu10x.bin");
    CHECK(joined(targets_below(made, "/usr/share")) ==
          "glvnd/egl_vendor.d/10_nvidia.json vulkan/icd.d/nvidia_icd.json");
    CHECK(loaded(made) == "/usr/lib64/libcuda.so.1");
}

TEST_CASE("nvidia: copies between GPU and host, and the pipe of MPS", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    host.node("/dev/gdrdrv", 240, 0);
    host.directory("/tmp/nvidia-mps");
    auto nodes = [&](const std::string& variable) {
        return nodes_text(targets_below(asked(host, image, all_gpus, {"NVIDIA_VISIBLE_DEVICES=0", variable}), "/dev"));
    };
    CHECK(nodes("X=1") == "gdrdrv nvidia0");
    CHECK(nodes("NVIDIA_DRIVER_CAPABILITIES=utility") == "nvidia0");
    for (const char* path : {"/dev/nvidia-fs0", "/dev/nvidia-fs1", "/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"})
        host.node(path, 241, 0);
    for (const char* path : {"/dev/nvidia-fs1", "/dev/nvidia-nvswitchctl"}) host.deny(path);
    CHECK(nodes("X=1") == "gdrdrv nvidia-fs0 nvidia-nvswitch0 nvidia0");
    CHECK(nodes("NVIDIA_NVSWITCH=enabled") ==
          "gdrdrv nvidia-fs0 nvidia-nvswitch0 nvidia-nvswitchctl nvidia0");
    CHECK(nodes("NVIDIA_DRIVER_CAPABILITIES=utility") == "nvidia0");
    CHECK(joined(targets_below(asked(host, image, all_gpus, {}), "/tmp")) == "nvidia-mps");
    plan::ContainerEdits odd = asked(host, image, all_gpus, {"CUDA_MPS_PIPE_DIRECTORY=/proc"});
    REQUIRE(odd.warnings.size() == 1);
    CHECK_THAT(odd.warnings[0], Catch::Contains("CUDA_MPS_PIPE_DIRECTORY=/proc"));
}

TEST_CASE("nvml: a report, and damage", "[hooks][nvidia]") {
    NvmlReport report = parse_nvml(
        "driver 570.86.15 12.8\ngpu 00000000:1B:00.0 0 GPU-a 9.0 nvidia mig\nslice 0 7 0 MIG-a\nslice 6 13 0 "
        "MIG-b\ngpu 00000000:2B:00.0 1 GPU-b - - "
        "whole\n");
    CHECK(report.cuda == "12.8");
    REQUIRE(report.gpus.size() == 2);
    CHECK(report.gpus[0].bus == "0000:1b:00.0");
    CHECK(report.gpus[0].slices.size() == 2);
    CHECK(report.gpus[0].slices[1].gpu_instance == 13);
    CHECK(report.gpus[1].arch.empty());
    for (const char* wrong : {"gpu x", "slice 0 1 2 MIG-a", "driver", "gpu 0000:1b:00.0 x GPU-a 9.0 nvidia mig"})
        CHECK_THROWS_AS(parse_nvml(wrong), Error);
    CHECK_THROWS_WITH(nvml_text("libnvidia-ml-none.so"), Catch::StartsWith("loading libnvidia-ml-none.so: "));
    CHECK(normal_bus("3B:00.0") == "0000:3b:00.0");
    CHECK(normal_bus("1:2") == "");
}

TEST_CASE("nvidia: texts of /proc", "[hooks][nvidia]") {
    CHECK(parse_module_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n") ==
          "535.104.05");
    CHECK(parse_module_version("") == "");
    auto gpu = parse_gpu("Model: \t\t NVIDIA A100\nGPU UUID: \t GPU-\?\?\?\?-\?\?\nDevice Minor: \t 3\n");
    REQUIRE(gpu);
    CHECK((gpu->minor == 3 && gpu->uuid.empty() && gpu->model == "NVIDIA A100"));
    CHECK_FALSE(parse_gpu("Device Minor: \t 300\n"));
    CHECK(cuda_of_driver("535.104.05") == "12.2");
    CHECK(cuda_of_driver("470.57") == "11.4");
    CHECK(cuda_of_driver("700.1") == "");
}

TEST_CASE("nvml: a library is loaded and asked, holes in its numbers skipped", "[hooks][nvidia]") {
    std::string library = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake_nvml.so";
    CHECK(nvml_text(library) ==
          "driver 570.86.15 12.8\n"
          "gpu 00000000:1B:00.0 0 GPU-aaaaaaaa-0000-0000-0000-000000000000 9.0 nvidia whole\n"
          "gpu 00000000:2B:00.0 1 GPU-bbbbbbbb-0000-0000-0000-000000000001 9.0 nvidia whole\n"
          "gpu 00000000:3B:00.0 2 GPU-cccccccc-0000-0000-0000-000000000002 9.0 nvidia mig\n"
          "slice 0 7 0 MIG-dddddddd-0000-0000-0000-000000000007\n"
          "slice 2 8 0 MIG-dddddddd-0000-0000-0000-000000000008\n"
          "slice 3 9 0 MIG-dddddddd-0000-0000-0000-000000000009\n"
          "gpu 00000000:4B:00.0 3 GPU-eeeeeeee-0000-0000-0000-000000000003 9.0 nvidia whole\n");
}

TEST_CASE("nvidia: a step's GPU that neither its image nor its job asks for is told of, once",
          "[hooks][nvidia][unasked]") {
    const DeviceMaker& maker = **std::ranges::find_if(device_makers(), [](const auto* one) {
        return one->vendor == std::string("nvidia");
    });
    auto warnings = [&](std::vector<std::string> image, std::vector<std::string> job, bool gpus = true,
                        plan::Site site = {}, bool amd = false) {
        FakeHost host;
        if (gpus) eight(host, false);
        if (amd) host.file("/dev/kfd", "");
        FakeImage rootfs;
        std::vector<plan::ContainerEdits> before;
        plan::ContainerEdits made = maker.make({host, rootfs, site, image, job, before});
        CHECK(made.edits.empty());
        return made.warnings;
    };
    const std::vector<std::string> step = {"SLURM_JOB_ID=7", "SLURM_NODEID=0", "CUDA_VISIBLE_DEVICES=0",
                                           "SLURM_STEP_GPUS=3"};
    auto with = [&](const std::string& text) {
        auto out = step;
        out.push_back(text);
        return out;
    };
    CHECK(warnings({"PATH=/bin"}, step) ==
          std::vector<std::string>{"this step has a GPU that the image does not ask for; set "
                                   "NVIDIA_VISIBLE_DEVICES=all for it, or =void for none"});
    CHECK(warnings({"PATH=/bin"}, step, false).empty());
    CHECK(warnings({"NVIDIA_VISIBLE_DEVICES=void"}, step).empty());
    CHECK(warnings({}, with("NVIDIA_VISIBLE_DEVICES=void")).empty());
    CHECK(warnings({}, with("BERTH_DEVICES=nvidia.com/gpu=all")).empty());
    CHECK(warnings({}, {"CUDA_VISIBLE_DEVICES=0"}).empty());
    CHECK(warnings({}, {"SLURM_JOB_ID=7", "SLURM_NODEID=1", "CUDA_VISIBLE_DEVICES=0"}).empty());
    CHECK(warnings({}, {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=NoDevFiles"}).empty());
    CHECK(warnings({}, {"SLURM_JOB_ID=7"}).empty());
    plan::Site site;
    site.devices.cdi = {"nvidia.com/gpu=all"};
    CHECK(warnings({}, step, true, site).empty());
    CHECK(warnings({}, step, true, {}, true).empty());
}
