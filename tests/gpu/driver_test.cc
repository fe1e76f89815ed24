// What is found of a real driver beside what NVML says and what the driver's folders have, and its programs in
// containers.
#include <algorithm>
#include <filesystem>

#include "hooks/edits.hh"
#include "runtime/base/text.hh"
#include "tests/gpu/root.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::gpu_test;

namespace {

const std::set<Capability> all_capabilities = {Capability::compute,  Capability::utility, Capability::video,
                                               Capability::graphics, Capability::display, Capability::ngx};

/// Of the X server and of programs that set the driver up, which no container runs.
constexpr const char* not_for_containers[] = {
    "libglxserver_nvidia", "libnvidia-gtk",     "libnvidia-wayland-client", "nvidia-settings",
    "nvidia-xconfig",      "nvidia-installer",  "nvidia-uninstall",         "nvidia-bug-report.sh",
    "nvidia-modprobe",     "nvidia-sleep.sh",   "nvidia-powerd",            "nvidia-container-",
    "nvidia-ctk",          "nvidia-cdi-hook",   "nvidia-imex",              "nvidia-pcc",
    "nvidia-dcgm",         "nvidia-detector",   "nvidia-ngx-updater"};

bool for_containers(const std::string& name) {
    return std::none_of(std::begin(not_for_containers), std::end(not_for_containers),
                        [&](const char* start) { return name.starts_with(start); });
}

DriverFiles everything() { return find_driver_files(Host(), "", driver_here().module_version, all_capabilities); }

std::string folder_of(const std::string& path) {
    return std::filesystem::canonical(path).parent_path();
}

/// The library that a line of the loader's list says is not there, or that an error is about, if any: an image may lack
/// libX11, which is no part of the driver.
std::string missing_library(const std::string& line) {
    const std::string error = "error while loading shared libraries: ";
    if (size_t at = line.find(error); at != line.npos) {
        std::string rest = line.substr(at + error.size());
        return rest.substr(0, rest.find(':'));
    }
    size_t arrow = line.find(" => not found");
    return arrow == line.npos ? "" : std::string(trimmed(line.substr(0, arrow)));
}

/// What two sides say of a GPU.
std::string line(const std::string& bus, unsigned minor, const std::string& uuid, std::set<std::string> slices) {
    std::string out = cat(bus, ' ', minor, ' ', uuid);
    for (const std::string& slice : slices) out += " " + slice;
    return out;
}

}  // namespace

TEST_CASE("gpu: what the driver's files say is what NVML says", "[gpu]") {
    Host host;
    Driver driver = driver_here();
    NvmlReport report = parse_nvml(nvml_text("libnvidia-ml.so.1"));
    CHECK(driver.module_version == report.driver);
    if (!driver.cuda.empty()) CHECK(driver.cuda == report.cuda);
    CHECK(find_driver_files(host, "", driver.module_version, {Capability::compute, Capability::utility}).version ==
          driver.module_version);
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

TEST_CASE("gpu: every library and program that the driver has on this node is known", "[gpu]") {
    DriverFiles files = everything();
    REQUIRE_FALSE(files.libraries.empty());
    std::set<std::string> known, folders;
    for (const DriverLibrary& library : files.libraries) {
        known.insert(library.name);
        folders.insert(folder_of(library.source));
    }
    for (const DriverFile& program : files.programs) {
        known.insert(program.source.substr(program.source.rfind('/') + 1));
        folders.insert(folder_of(program.source));
    }
    const std::string ending = ".so." + files.version;
    std::string unknown;
    for (const std::string& folder : folders)
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            std::string name = entry.path().filename();
            bool of_driver = name.ends_with(ending) || name.starts_with("nvidia-");
            if (of_driver && for_containers(name) && !known.contains(name)) unknown += name + " ";
        }
    INFO(joined(folders));
    CHECK(unknown.empty());
}

TEST_CASE("gpu: a library of the driver misses none of the driver's in a container", "[gpu]") {
    Root root;
    for (const auto& entry : std::filesystem::directory_iterator("/lib64"))
        if (entry.path().filename().string().starts_with("ld-linux")) root.link("/bin/loader", entry.path());
    const std::string script =
        "for l in \"$@\"; do for f in /usr/lib64/$l /usr/lib/*-linux-gnu/$l; do [ ! -e $f ] || /bin/loader --list $f; "
        "done; done";
    std::vector<std::string> command{"sh", "-c", script, "sh"};
    for (const DriverLibrary& library : everything().libraries)
        if (library.folder.empty()) command.push_back(library.name);
    std::string text = root.run({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"}, command);
    INFO(text);
    size_t lists = 0;
    for (const std::string& line : split(text, '\n')) {
        lists += line.find("libc.so.6 => /") != std::string::npos || line.find("error while loading") != line.npos;
        CHECK(missing_library(line).find("nvidia") == std::string::npos);
        CHECK_FALSE(missing_library(line).starts_with("libcuda.so"));
    }
    CHECK(lists >= command.size() - 4);
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

TEST_CASE("gpu: nvidia-smi says the same in a container as on the node, by the same libraries", "[gpu]") {
    Root root;
    const std::vector<std::string> ask{
        "nvidia-smi",
        "--query-gpu=uuid,name,driver_version,pci.bus_id,memory.total,mig.mode.current,compute_cap,persistence_mode",
        "--format=csv"};
    std::string here = said(ask);
    INFO(here);
    CHECK(here.ends_with("|0"));
    CHECK(root.run({"NVIDIA_VISIBLE_DEVICES=all"}, ask) == here);
    auto traced = ask;
    traced.insert(traced.begin(), {"/usr/bin/env", "LD_DEBUG=files"});
    std::set<std::string> on_node = loaded_in(said(traced));
    CHECK(on_node.contains("libnvidia-ml.so.1"));
    CHECK(joined(loaded_in(root.run({"NVIDIA_VISIBLE_DEVICES=all"}, ask, {"--env", "LD_DEBUG=files"}))) ==
          joined(on_node));
}

TEST_CASE("gpu: a container has the device files of its GPU, and /proc of no other", "[gpu]") {
    Root root;
    root.take("/bin/ls");
    std::vector<Gpu> gpus = open_gpus();
    REQUIRE_FALSE(gpus.empty());
    const std::string uuid = "NVIDIA_VISIBLE_DEVICES=" + gpus.front().uuid;
    std::string nodes = root.run({uuid}, {"sh", "-c", "cd /dev; ls -d nvidia*; ls nvidia-caps 2>/dev/null"});
    std::set<std::string> expected{cat("nvidia", gpus.front().minor), "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"};
    std::set<std::string> seen;
    for (const std::string& name : split(nodes.substr(0, nodes.rfind('|')), '\n'))
        if (!name.empty()) seen.insert(name);
    CHECK(joined(seen) == joined(expected));
    CHECK(root.run({uuid}, {"ls", "/proc/driver/nvidia/gpus"}) == gpus.front().bus + "\n|0");
    CHECK(root.run({uuid}, {"sh", "-c", "while read -r k v; do case $k in Mod*) echo $v;; esac; done "
                                        "< /proc/driver/nvidia/params"}) == "0\n|0");
    CHECK(root.run({"NVIDIA_VISIBLE_DEVICES=void"}, {"sh", "-c", "ls -d /dev/nvidia*"}).ends_with("|2"));
}

TEST_CASE("gpu: without devices there is the driver alone, or nothing of it", "[gpu]") {
    Root root;
    std::string driver_only = root.run({"NVIDIA_VISIBLE_DEVICES=none"}, {"nvidia-smi", "-L"});
    INFO(driver_only);
    CHECK_FALSE(driver_only.ends_with("|127"));
    CHECK(uuids_in(driver_only).empty());
    CHECK(root.run({"NVIDIA_VISIBLE_DEVICES=void"}, {"nvidia-smi", "-L"}).ends_with("|127"));
}
