#include <catch2/catch.hpp>
#include <elf.h>


#include <cstring>

#include "runtime/base/error.hh"
#include "tests/fixtures/gpu_scenes.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

/// The targets below a folder that edits put something at, without that folder.
std::set<std::string> below(const plan::Additions& additions, const std::string& folder) {
    std::set<std::string> out;
    for (const plan::Edit& edit : additions.edits) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        const auto* file = std::get_if<plan::DropIn>(&edit.action);
        std::string target = mount ? mount->target : file ? file->path : "";
        if (target.starts_with(folder + "/")) out.insert(target.substr(folder.size() + 1));
    }
    return out;
}

std::string joined(const std::set<std::string>& names) { return names_text(names, {}); }

std::string visible(const plan::Additions& additions, const std::vector<std::string>& job) {
    for (const auto& [name, value] : plan::visible_device_changes(additions.devices, std::vector<bool>(additions.devices.size(), true), job))
        if (name == "CUDA_VISIBLE_DEVICES") return value;
    return {};
}

const plan::LoaderLibraries& loader_of(const plan::Additions& additions) {
    for (const plan::Edit& edit : additions.edits)
        if (const auto* added = std::get_if<plan::LoaderLibraries>(&edit.action)) return *added;
    throw Error("no libraries");
}

std::string cached_path(const plan::Additions& additions, const std::string& name) {
    for (const plan::CachedLibrary& library : loader_of(additions).libraries)
        if (library.name == name) return library.path;
    return "none";
}

std::string reason_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

const std::vector<std::string> all_gpus = {"NVIDIA_VISIBLE_DEVICES=all"};

}  // namespace

TEST_CASE("nvidia: each scene has exactly its nodes", "[hooks][nvidia]") {
    for (const GpuScene& scene : gpu_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image;
        plan::Additions additions = asked(host, image, scene.image, scene.job);
        CHECK(nodes_text(below(additions, "/dev")) == scene.nodes);
        CHECK(proc_text(below(additions, "/proc/driver/nvidia")) == scene.proc);
        CHECK(visible(additions, scene.job) == scene.visible);
        CHECK((additions.warnings.empty() ? "" : additions.warnings[0]).find(scene.warning) != std::string::npos);
        CHECK(additions.warnings.size() == (scene.warning.empty() ? 0 : 1));
    }
}

TEST_CASE("nvidia: what is not the step's is refused in one line", "[hooks][nvidia]") {
    FakeHost host;
    FakeImage image;
    eight(host, true);
    host.allow_only("/dev/nvidia", {1, 3});
    auto with = [&](const std::string& devices) { return reason_of([&] { asked(host, image, all_gpus, {"NVIDIA_VISIBLE_DEVICES=" + devices}); }); };
    CHECK(with(gpu_uuid(2)) == "NVIDIA_VISIBLE_DEVICES: " + gpu_uuid(2) + " is not allocated to this step");
    CHECK(with("2") == "NVIDIA_VISIBLE_DEVICES: 2 is not allocated: this step has 2 GPUs, counted from 0");
    CHECK(with("00000000:1B:00.0") == "NVIDIA_VISIBLE_DEVICES: 00000000:1B:00.0 is not allocated to this step");
    CHECK(with("0000:ff:00.0") == "NVIDIA_VISIBLE_DEVICES: 0000:ff:00.0 is no GPU of this node");
    CHECK_THAT(with("0:1"), Catch::Contains("names a MIG device of a GPU that has none"));
    CHECK_THAT(with("gpu0"), Catch::Contains("is no index, GPU:MIG, UUID or address"));
    CHECK(with(gpu_uuid(3)) == "no error");
    CHECK(with("0000:3b:00.0") == "no error");
}

TEST_CASE("nvidia: no driver, no GPU, and what the site makes of it", "[hooks][nvidia]") {
    FakeHost bare;
    FakeImage image;
    plan::Additions none = asked(bare, image, all_gpus, {});
    CHECK(none.edits.empty());
    REQUIRE(none.warnings.size() == 1);
    CHECK_THAT(none.warnings[0], Catch::Contains("this node has no NVIDIA driver"));
    CHECK_THAT(reason_of([&] { asked(bare, image, all_gpus, {}, true); }), Catch::Contains("devices.nvidia is required"));
    CHECK(asked(bare, image, {}, {}).warnings.empty());

    FakeHost denied;
    eight(denied, false);
    denied.allow_only("/dev/nvidia", {});
    for (const char* devices : {"all", "0", "3,4"}) {
        INFO(devices);
        CHECK(asked(denied, image, all_gpus, {"SLURM_JOB_ID=1", "SLURM_JOB_GPUS=0,1", cat("NVIDIA_VISIBLE_DEVICES=", devices)}).edits.empty());
    }
    CHECK(asked(denied, image, all_gpus, {"SLURM_JOB_ID=1", "SLURM_JOB_GPUS=0,1"}).warnings.empty());
    CHECK_THAT(reason_of([&] { asked(denied, image, all_gpus, {}, true); }), Catch::Contains("this step has none"));
    CHECK(asked(denied, image, all_gpus, {"SLURM_JOB_ID=1", "CUDA_VISIBLE_DEVICES=NoDevFiles"}).edits.empty());
}

TEST_CASE("nvidia: a driver whose parts do not fit is one line with both versions", "[hooks][nvidia]") {
    FakeHost host;
    FakeImage image;
    host.driver("580.65.06", "570.86.15");
    host.gpu(0, "0000:1b:00.0", gpu_uuid(0));
    CHECK_THAT(reason_of([&] { asked(host, image, all_gpus, {}); }), Catch::Contains("its kernel module is 580.65.06 and its libraries are 570.86.15"));
    host.remove("/usr/lib/x86_64-linux-gnu");
    CHECK_THAT(reason_of([&] { asked(host, image, all_gpus, {}); }), Catch::Contains("there is no libcuda or libnvidia-ml on this node"));
}

TEST_CASE("nvidia: a slice that the driver does not name, a dead node, a wrong one", "[hooks][nvidia]") {
    FakeImage image;
    auto with = [&](const std::function<void(FakeHost&)>& damage) {
        FakeHost host;
        sliced(host);
        host.allow_only("/dev/nvidia", {0});
        host.allow_only("/dev/nvidia-caps/nvidia-cap", {75, 76});
        damage(host);
        return reason_of([&] { asked(host, image, all_gpus, {}); });
    };
    CHECK(with([](FakeHost&) {}) == "no error");
    CHECK_THAT(with([](FakeHost& host) { host.forget_cap(76); }),
               Catch::Contains("MIG device gi8/ci0 of GPU 0000:1b:00.0: /proc/driver/nvidia-caps/mig-minors does not name its node"));
    CHECK_THAT(with([](FakeHost& host) { host.remove("/dev/nvidiactl"); }), Catch::Contains("/dev/nvidiactl: it does not exist; run nvidia-modprobe"));
    CHECK_THAT(with([](FakeHost& host) { host.remove("/dev/nvidia0"); }), Catch::Contains("/dev/nvidia0: it does not exist"));
    CHECK_THAT(with([](FakeHost& host) { host.node("/dev/nvidia-caps/nvidia-cap75", 234, 7); }),
               Catch::Contains("nvidia-cap75: it is device 234:7 and should be 234:75"));
}

TEST_CASE("nvidia: where libraries go, and how the loader finds them", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    auto place = [&](const std::vector<std::pair<std::string, std::string>>& files) {
        FakeImage image;
        for (const auto& [path, content] : files) image.file(path, content);
        plan::Additions additions = asked(host, image, all_gpus, {});
        return cat(cached_path(additions, "libcuda.so.1"), " ", loader_of(additions).musl_path);
    };
    CHECK(place({{"/etc/debian_version", "12\n"}, {"/etc/ld.so.conf", "x"}}) == "/usr/lib/x86_64-linux-gnu/libcuda.so.1 ");
    CHECK(place({{"/etc/redhat-release", "x"}, {"/etc/ld.so.conf", "x"}}) == "/usr/lib64/libcuda.so.1 ");
    CHECK(place({}) == "/usr/lib64/libcuda.so.1 ");
    CHECK(place({{"/etc/alpine-release", "3.20\n"}}) == "/usr/lib64/libcuda.so.1 /etc/ld-musl-x86_64.path");
}

TEST_CASE("nvidia: each capability has exactly its libraries", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    image.file("/etc/debian_version", "12\n");
    auto libraries = [&](const std::string& capabilities) {
        std::set<std::string> out;
        for (const std::string& name : below(asked(host, image, all_gpus, {"NVIDIA_DRIVER_CAPABILITIES=" + capabilities}), "/usr/lib/x86_64-linux-gnu"))
            out.insert(name.substr(0, name.find(".so.") ));
        return joined(out);
    };
    const std::string compute = "libcuda libnvidia-allocator libnvidia-nvvm libnvidia-opencl libnvidia-ptxjitcompiler";
    CHECK(libraries("utility") == "libnvidia-cfg libnvidia-ml");
    CHECK(libraries("compute") == compute);
    CHECK(libraries("video") ==
          "libcuda libnvcuvid libnvidia-allocator libnvidia-encode libnvidia-nvvm libnvidia-opencl libnvidia-ptxjitcompiler vdpau/libvdpau_nvidia");
    CHECK(libraries("graphics") == "libGLX_nvidia libnvidia-eglcore");
    CHECK(libraries("display") == "libGLX_nvidia libnvidia-eglcore");
    CHECK(libraries("ngx") == "");
    plan::Additions shown = asked(host, image, all_gpus, {"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=display"});
    CHECK(nodes_text(below(shown, "/dev")) == "dri/renderD128 nvidia-modeset nvidia0");
    CHECK(joined(below(asked(host, image, all_gpus, {}), "/usr/bin")) == "nvidia-cuda-mps-control nvidia-smi");
    CHECK(joined(below(asked(host, image, all_gpus, {}), "/lib/firmware")) == "nvidia/570.86.15/gsp_ga10x.bin");
    CHECK(joined(below(asked(host, image, all_gpus, {}), "/etc")) == "OpenCL/vendors/nvidia.icd");
}

TEST_CASE("nvidia: requirements of the image", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    auto with = [&](const std::string& requirement, const std::string& job = "X=1") {
        return reason_of([&] { asked(host, image, {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=" + requirement}, {job}); });
    };
    CHECK_THAT(with("cuda>=99"), Catch::Contains("the image needs NVIDIA_REQUIRE_CUDA=cuda>=99 and this node has driver 570.86.15, CUDA up to 12.8"));
    CHECK(with("cuda>=99", "NVIDIA_DISABLE_REQUIRE=1") == "no error");
    CHECK(with("cuda>=99 driver>=570,driver<571") == "no error");
    CHECK(with("cuda>=99 brand=NVIDIA,driver>=570") == "no error");
    CHECK_THAT(with("cuda>=12.4,arch>=10"), Catch::Contains("compute capability 9.0"));
}

TEST_CASE("nvidia: forward compatibility libraries of the image", "[hooks][nvidia]") {
    FakeHost host;
    host.driver("580.65.06", "580.65.06");
    host.gpu(0, "0000:1b:00.0", gpu_uuid(0));
    auto path = [&](const std::string& version, const std::string& content) {
        FakeImage image;
        image.link("/usr/local/cuda", "/usr/local/cuda-13");
        image.file("/usr/local/cuda-13/compat/libcuda.so." + version, content);
        image.link("/usr/local/cuda-13/compat/libcuda.so.1", "libcuda.so." + version);
        return cached_path(asked(host, image, all_gpus, {}), "libcuda.so.1");
    };
    /// An ELF file with nothing but the note.
    auto elf = [](const std::string& note) {
        const std::string names = std::string("\0.shstrtab\0.note.cuda.fwd_compatibility\0", 40);
        Elf64_Ehdr header{};
        std::memcpy(header.e_ident, ELFMAG, SELFMAG);
        header.e_ident[EI_CLASS] = ELFCLASS64;
        header.e_shentsize = sizeof(Elf64_Shdr);
        header.e_shnum = 3;
        header.e_shstrndx = 1;
        header.e_shoff = sizeof header + names.size() + note.size();
        Elf64_Shdr sections[3] = {};
        sections[1].sh_name = 1;
        sections[1].sh_offset = sizeof header;
        sections[1].sh_size = names.size();
        sections[2].sh_name = 11;
        sections[2].sh_offset = sizeof header + names.size();
        sections[2].sh_size = note.size();
        return std::string(reinterpret_cast<char*>(&header), sizeof header) + names + note + std::string(reinterpret_cast<char*>(sections), sizeof sections);
    };
    const std::string compat = "/usr/local/cuda/compat/libcuda.so.1", own = "/usr/lib64/libcuda.so.1";
    CHECK(path("590.44.01", "no ELF") == compat);
    CHECK(path("570.86.15", "no ELF") == own);
    CHECK(path("580.95.05", "no ELF") == own);
    CHECK(path("580.95.05", elf(R"({"CUDA Version":"13.0","Driver":["570", 580],"Device":[1]})")) == compat);
    CHECK(path("590.44.01", elf(R"({"CUDA Version":"13.1","Driver":[570],"Device":[1]})")) == own);
    CHECK(path("580.9.01", elf(R"({"Driver":[580]})")) == own);
    CHECK(path("590.44.01", elf("").substr(0, 100)) == compat);
}

TEST_CASE("nvidia: channels, files of the node, and the pipe of MPS", "[hooks][nvidia]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    host.node("/dev/nvidia-caps-imex-channels/channel0", 235, 0);
    host.node("/dev/gdrdrv", 240, 0);
    host.directory("/tmp/nvidia-mps");
    auto nodes = [&](const std::string& variable) { return nodes_text(below(asked(host, image, all_gpus, {"NVIDIA_VISIBLE_DEVICES=0", variable}), "/dev")); };
    CHECK(nodes("NVIDIA_IMEX_CHANNELS=0") == "gdrdrv nvidia-caps-imex-channels/channel0 nvidia0");
    CHECK_THAT(reason_of([&] { nodes("NVIDIA_IMEX_CHANNELS=7"); }), Catch::Contains("channel7: it does not exist"));
    CHECK(nodes("NVIDIA_DRIVER_CAPABILITIES=utility") == "nvidia0");
    CHECK(joined(below(asked(host, image, all_gpus, {}), "/tmp")) == "nvidia-mps");
    plan::Additions odd = asked(host, image, all_gpus, {"CUDA_MPS_PIPE_DIRECTORY=/proc"});
    REQUIRE(odd.warnings.size() == 1);
    CHECK_THAT(odd.warnings[0], Catch::Contains("CUDA_MPS_PIPE_DIRECTORY=/proc"));
}

TEST_CASE("nvml: a report, and damage", "[hooks][nvidia]") {
    NvmlReport report = parse_nvml(
        "driver 570.86.15 12.8\ngpu 00000000:1B:00.0 0 GPU-a 9.0 nvidia mig\nslice 0 7 0 MIG-a\nslice 6 13 0 MIG-b\ngpu 00000000:2B:00.0 1 GPU-b - - whole\n");
    CHECK(report.cuda == "12.8");
    REQUIRE(report.gpus.size() == 2);
    CHECK(report.gpus[0].bus == "0000:1b:00.0");
    CHECK(report.gpus[0].slices.size() == 2);
    CHECK(report.gpus[0].slices[1].gpu_instance == 13);
    CHECK(report.gpus[1].arch.empty());
    for (const char* wrong : {"gpu x", "slice 0 1 2 MIG-a", "driver", "gpu 0000:1b:00.0 x GPU-a 9.0 nvidia mig"}) CHECK_THROWS_AS(parse_nvml(wrong), Error);
    CHECK_THROWS_WITH(nvml_text("libnvidia-ml-none.so"), Catch::StartsWith("loading libnvidia-ml-none.so: "));
    CHECK(normal_bus("3B:00.0") == "0000:3b:00.0");
    CHECK(normal_bus("1:2") == "");
}

TEST_CASE("nvidia: texts of /proc", "[hooks][nvidia]") {
    CHECK(parse_module_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n") == "535.104.05");
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
          "gpu 00000000:9B:00.0 9 GPU-cccccccc-0000-0000-0000-000000000009 9.0 nvidia mig\n"
          "slice 0 7 0 MIG-dddddddd-0000-0000-0000-000000000007\n"
          "slice 2 8 0 MIG-eeeeeeee-0000-0000-0000-000000000008\n");
}
