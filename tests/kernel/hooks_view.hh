// What a task finds of the devices and of the driver in its container, as the scenes write it.
#pragma once
#include <filesystem>

#include "tests/fixtures/container_edits.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/fixtures/machine.hh"
#include "tests/kernel/support.hh"

namespace berth::kernel_test {

using namespace berth::fixtures;

/// What all makers have made, as if by one.
inline plan::ContainerEdits together(const std::vector<plan::ContainerEdits>& all) {
    plan::ContainerEdits out;
    auto add = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    for (const plan::ContainerEdits& made : all) {
        add(out.edits, made.edits);
        add(out.environment, made.environment);
        add(out.variables, made.variables);
        add(out.devices, made.devices);
    }
    return out;
}

/// A plan of hooks alone. The fake nodes are plain files, which may not be mounted as devices.
inline plan::Plan plan_on(const FakeHost& host, const plan::ContainerEdits& made) {
    plan::Plan plan = bare_plan();
    plan.edits = {bind_of(host.path() + "/proc", "/proc"), bind_of(host.path() + "/sys", "/sys", true)};
    plan::Mount dev;
    dev.kind = plan::Mount::Kind::tmpfs;
    dev.target = "/dev";
    plan.edits.push_back({dev, "system", "a private /dev"});
    for (plan::Edit edit : made.edits) {
        if (auto* mount = std::get_if<plan::Mount>(&edit.action)) mount->device = false;
        plan.edits.push_back(edit);
    }
    plan.environment.set = made.environment;
    return plan;
}

/// The files and directories of the last level below a folder, as the scenes write them; none where it is missing.
inline std::set<std::string> found_below(const std::string& folder) {
    std::set<std::string> out;
    if (!std::filesystem::exists(folder)) return out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        std::string name = entry.path().string().substr(folder.size() + 1);
        if (name.starts_with("gpus/") && entry.is_directory()) out.insert(name);
        if (entry.is_regular_file() && !name.starts_with("gpus/")) out.insert(name);
    }
    return out;
}

/// The fake nodes hold their own path: each must be the one of its name.
inline std::string wrong_nodes() {
    std::string out;
    for (const std::string& name : found_below("/dev"))
        if (slurp("/dev/" + name) != "/dev/" + name) out += name + " ";
    return out;
}

/// The driver's libraries hold their own name; what an image has beside them does not.
inline void add_libraries(std::set<std::string>& out, const std::string& folder, const std::string& mark) {
    if (!std::filesystem::exists(folder)) return;
    auto entries = mark.empty() ? found_below(folder) : std::set<std::string>();
    if (!mark.empty())
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            if (entry.is_regular_file() && !entry.is_symlink()) entries.insert(entry.path().filename());
    for (const std::string& name : entries)
        if (!std::filesystem::is_symlink(folder + "/" + name) &&
            slurp(folder + "/" + name) == std::filesystem::path(name).filename())
            out.insert(mark + library_stem(name));
}

inline std::string loaded() {
    const std::string musl = "/etc/ld-musl-" MACHINE_NAME ".path", cache = "/etc/ld.so.cache";
    if (std::filesystem::exists(musl))
        return slurp(musl).ends_with("/usr/lib64\n") &&
                       slurp("/usr/lib64/libcuda.so.1") == "libcuda.so." + driver_version
                   ? musl
                   : "a file without the folder";
    if (!std::filesystem::exists(cache)) return "none";
    for (const plan::CachedLibrary& library : parse_loader_cache(slurp(cache), "cache").libraries)
        if (library.name == "libcuda.so.1" && library.flags == loader_flags())
            return std::filesystem::exists(library.path) ? library.path : "a name of nothing";
    return "none";
}

inline std::string params() {
    const std::string path = "/proc/driver/nvidia/params", key = "ModifyDeviceFiles: ";
    size_t at = std::filesystem::exists(path) ? slurp(path).find(key) : std::string::npos;
    return at == std::string::npos ? "absent" : slurp(path).substr(at + key.size(), 1);
}

inline std::string visible(const plan::ContainerEdits& made, const std::vector<std::string>& job) {
    for (const auto& [name, value] :
         plan::visible_device_changes(tasks_choose_from(made), plan::accessible_devices, job))
        if (name == "CUDA_VISIBLE_DEVICES") return value;
    return {};
}

/// What a task sees. Of a container that got nothing, /proc is the node's.
inline std::string seen_by_task(const GpuScene& scene, const plan::ContainerEdits& made) {
    std::set<std::string> libraries;
    add_libraries(libraries, scene.folder, "");
    add_libraries(libraries, "/usr/lib", "32:");
    bool covered = !made.edits.empty();
    GpuView view{nodes_text(found_below("/dev")),
                 covered ? proc_text(found_below("/proc/driver/nvidia")) : "",
                 joined(libraries),
                 joined(found_below("/usr/bin")),
                 loaded(),
                 covered ? params() : "absent",
                 visible(made, scene.job)};
    return view.text() + wrong_nodes();
}

}  // namespace berth::kernel_test
