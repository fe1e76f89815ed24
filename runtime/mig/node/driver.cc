#include "runtime/mig/node/driver.hh"

#include <dlfcn.h>

#include <algorithm>
#include <array>

#include "runtime/base/text.hh"
#include "runtime/mig/layout/models.hh"
#include "runtime/mig/node/nvml_types.hh"

namespace berth::mig {

namespace {

using namespace nvml;

/// As the header calls them, for a sentence.
std::string result_name(int code) {
    switch (code) {
        case invalid_argument: return "INVALID_ARGUMENT";
        case not_supported: return "NOT_SUPPORTED";
        case no_permission: return "NO_PERMISSION";
        case not_found: return "NOT_FOUND";
        case driver_not_loaded: return "DRIVER_NOT_LOADED";
        case function_not_found: return "FUNCTION_NOT_FOUND";
        case gpu_is_lost: return "GPU_IS_LOST";
        case reset_required: return "RESET_REQUIRED";
        case version_mismatch: return "LIB_RM_VERSION_MISMATCH";
        case in_use: return "IN_USE";
        case insufficient_resources: return "INSUFFICIENT_RESOURCES";
        default: return cat("error ", code);
    }
}

[[noreturn]] void fail(std::string_view doing, const Gpu& gpu, int code) {
    std::string line = cat(doing, " GPU ", name_of(gpu), ": NVML answers ", result_name(code));
    if (code == in_use) throw InUse(cat(line, "; end the processes that nvidia-smi shows on it"));
    throw Error(cat(line, "; nvidia-smi on the node tells more"));
}

/// Of the number of a profile: this GPU does not have it, or this release does not know it, nor perhaps a few others
/// in between.
bool is_unknown(int code) { return code == not_supported || code == invalid_argument; }

std::string text_in(const char* buffer, size_t size) { return {buffer, std::find(buffer, buffer + size, '\0')}; }

/// "MIG 1g.10gb+me" → "1g.10gb+me".
std::string profile_name(std::string_view text) {
    if (text.starts_with("MIG ")) text.remove_prefix(4);
    return std::string(text);
}

Placement placement(const Place& place) { return {place.start, place.size}; }

}  // namespace

std::string name_of(const Gpu& gpu) { return cat(printable(gpu.uuid), " (/dev/nvidia", gpu.minor, ")"); }

Driver::Driver(const std::string& library) : library_(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) throw Error(cat("loading ", printable(library), ": ", printable(::dlerror())));
    if (int code = call<int()>("nvmlInit_v2"); code != success) {
        ::dlclose(library_);
        throw Error(cat("starting NVML: it answers ", result_name(code), "; nvidia-smi on the node tells more"));
    }
}

Driver::~Driver() {
    call<int()>("nvmlShutdown");
    ::dlclose(library_);
}

/// Calls a function; function_not_found when the library lacks it.
template <typename Signature, typename... Arguments>
int Driver::call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Signature*>(::dlsym(library_, name));
    return function ? function(arguments...) : function_not_found;
}

std::vector<Gpu> Driver::gpus() const {
    std::vector<Gpu> out;
    unsigned count = 0;
    call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
    for (unsigned i = 0; i < count; ++i) {
        Gpu gpu;
        char uuid[text_size] = {};
        if (call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &gpu.handle) != success ||
            call<int(Device, unsigned*)>("nvmlDeviceGetMinorNumber", gpu.handle, &gpu.minor) != success ||
            call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", gpu.handle, uuid, text_size) != success)
            continue;
        gpu.uuid = text_in(uuid, text_size);
        out.push_back(gpu);
    }
    return out;
}

void Driver::require_mig(const Gpu& gpu) const {
    unsigned now = 0, next = 0;
    int code = call<int(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", gpu.handle, &now, &next);
    if (code == not_supported) throw Error(cat("GPU ", name_of(gpu), " has no MIG mode"));
    if (code != success) fail("asking for the MIG mode of", gpu, code);
    if (!now)
        throw Error(cat("GPU ", name_of(gpu), " is not in MIG mode, and no GPU is reset for a job; the administrator "
                                              "turns it on by nvidia-smi -i ", printable(gpu.uuid), " -mig 1"));
    if (!next) throw Error(cat("GPU ", name_of(gpu), " leaves MIG mode at its next reset"));
}

/// The result of the call.
int Driver::read_profile(const Gpu& gpu, unsigned number, Profile& out) const {
    NamedGpuProfile named{};
    named.version = named_gpu_profile_version;
    int code = call<int(Device, unsigned, NamedGpuProfile*)>("nvmlDeviceGetGpuInstanceProfileInfoV", gpu.handle, number,
                                                             &named);
    if (code == success) {
        out = {named.id, profile_name(text_in(named.name, sizeof named.name)), named.slices, named.instances,
               {named.decoders, named.jpeg, named.optical_flow}, {}};
        return code;
    }
    // Drivers before 520.
    if (code != function_not_found) return code;
    GpuProfile plain{};
    code = call<int(Device, unsigned, GpuProfile*)>("nvmlDeviceGetGpuInstanceProfileInfo", gpu.handle, number, &plain);
    if (code != success) return code;
    char text[text_size] = {};
    call<int(Device, char*, unsigned)>("nvmlDeviceGetName", gpu.handle, text, text_size);
    auto model = model_of(text_in(text, text_size));
    const Profile* known = model ? model->numbered(plain.id) : nullptr;
    out = {plain.id, known ? known->name : "", plain.slices, plain.instances,
           {plain.decoders, plain.jpeg, plain.optical_flow}, {}};
    return code;
}

std::vector<Profile> Driver::profiles(const Gpu& gpu) const {
    std::vector<Profile> out;
    for (unsigned number = 0; number < gpu_profiles; ++number) {
        Profile profile;
        int code = read_profile(gpu, number, profile);
        if (is_unknown(code)) continue;
        if (code != success) fail("asking for the MIG profiles of", gpu, code);
        out.push_back(std::move(profile));
    }
    if (out.empty()) throw Error(cat("GPU ", name_of(gpu), ": NVML knows no MIG profile of it"));
    return out;
}

Model Driver::model(const Gpu& gpu) const {
    char text[text_size] = {};
    call<int(Device, char*, unsigned)>("nvmlDeviceGetName", gpu.handle, text, text_size);
    Model out{text_in(text, text_size), profiles(gpu)};
    for (Profile& profile : out.profiles) {
        std::array<Place, most_of_a_kind> places{};
        unsigned count = most_of_a_kind;
        int code = call<int(Device, unsigned, Place*, unsigned*)>("nvmlDeviceGetGpuInstancePossiblePlacements_v2",
                                                                  gpu.handle, profile.id, places.data(), &count);
        if (code != success) fail("asking for the MIG placements of", gpu, code);
        for (unsigned i = 0; i < std::min(count, most_of_a_kind); ++i)
            profile.placements.push_back(placement(places[i]));
    }
    return out;
}

std::vector<Driver::Found<Compute>> Driver::computes(const Gpu& gpu, void* instance) const {
    const char* doing = "asking for the compute instances of";
    std::vector<Found<Compute>> out;
    for (unsigned number = 0; number < compute_profiles; ++number) {
        ComputeProfile profile{};
        int code = call<int(GpuInstance, unsigned, unsigned, ComputeProfile*)>(
            "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, 0U, &profile);
        if (is_unknown(code)) continue;
        if (code != success) fail(doing, gpu, code);
        std::array<void*, most_of_a_kind> found{};
        unsigned count = most_of_a_kind;
        code = call<int(GpuInstance, unsigned, void**, unsigned*)>("nvmlGpuInstanceGetComputeInstances", instance,
                                                                   profile.id, found.data(), &count);
        if (code != success) fail(doing, gpu, code);
        for (unsigned i = 0; i < std::min(count, most_of_a_kind); ++i) {
            ComputeInstanceInfo info{};
            code = call<int(ComputeInstance, ComputeInstanceInfo*)>("nvmlComputeInstanceGetInfo_v2", found[i], &info);
            if (code != success) fail(doing, gpu, code);
            out.push_back({found[i], {number, placement(info.place)}});
        }
    }
    return out;
}

std::vector<Driver::Found<Instance>> Driver::instances(const Gpu& gpu) const {
    const char* doing = "asking for the GPU instances of";
    std::vector<Found<Instance>> out;
    for (const Profile& profile : profiles(gpu)) {
        std::array<void*, most_of_a_kind> found{};
        unsigned count = most_of_a_kind;
        int code = call<int(Device, unsigned, void**, unsigned*)>("nvmlDeviceGetGpuInstances", gpu.handle, profile.id,
                                                                  found.data(), &count);
        if (code != success) fail(doing, gpu, code);
        for (unsigned i = 0; i < std::min(count, most_of_a_kind); ++i) {
            GpuInstanceInfo info{};
            code = call<int(GpuInstance, GpuInstanceInfo*)>("nvmlGpuInstanceGetInfo", found[i], &info);
            if (code != success) fail(doing, gpu, code);
            out.push_back({found[i], {profile.id, placement(info.place), {}}});
        }
    }
    return out;
}

Layout Driver::layout(const Gpu& gpu) const {
    Layout out;
    for (auto& [handle, instance] : instances(gpu)) {
        for (auto& [unused, compute] : computes(gpu, handle)) instance.computes.push_back(compute);
        out.push_back(instance);
    }
    return out;
}

void* Driver::find_instance(const Gpu& gpu, const Instance& wanted) const {
    for (const auto& [handle, instance] : instances(gpu))
        if (instance.same_place(wanted)) return handle;
    throw Error(cat("GPU ", name_of(gpu), ": a GPU instance is gone that was there a moment ago"));
}

int Driver::create_compute(const Gpu& gpu, const Step& step) const {
    void* instance = find_instance(gpu, step.instance);
    ComputeProfile profile{};
    int code = call<int(GpuInstance, unsigned, unsigned, ComputeProfile*)>(
        "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, step.compute.profile, 0U, &profile);
    if (code != success) return code;
    Place place{step.compute.place.start, step.compute.place.size};
    void* made = nullptr;
    code = call<int(GpuInstance, unsigned, const Place*, void**)>(
        "nvmlGpuInstanceCreateComputeInstanceWithPlacement", instance, profile.id, &place, &made);
    // Drivers before 535 place it themselves: the same, one after the other into an instance that is new.
    if (code != function_not_found) return code;
    return call<int(GpuInstance, unsigned, void**)>("nvmlGpuInstanceCreateComputeInstance", instance, profile.id,
                                                    &made);
}

int Driver::destroy_compute(const Gpu& gpu, const Step& step) const {
    for (const auto& [handle, compute] : computes(gpu, find_instance(gpu, step.instance)))
        if (compute == step.compute) return call<int(ComputeInstance)>("nvmlComputeInstanceDestroy", handle);
    throw Error(cat("GPU ", name_of(gpu), ": a compute instance is gone that was there a moment ago"));
}

int Driver::change(const Gpu& gpu, const Step& step) const {
    switch (step.kind) {
        case Step::Kind::create_compute: return create_compute(gpu, step);
        case Step::Kind::destroy_compute: return destroy_compute(gpu, step);
        case Step::Kind::destroy_instance:
            return call<int(GpuInstance)>("nvmlGpuInstanceDestroy", find_instance(gpu, step.instance));
        case Step::Kind::create_instance: break;
    }
    Place place{step.instance.place.start, step.instance.place.size};
    void* made = nullptr;
    return call<int(Device, unsigned, const Place*, void**)>("nvmlDeviceCreateGpuInstanceWithPlacement", gpu.handle,
                                                             step.instance.profile, &place, &made);
}

void Driver::make(const Gpu& gpu, const Step& step, const Model& model) const {
    if (int code = change(gpu, step); code != success) fail(cat(text_of(step, model), " on"), gpu, code);
}

}  // namespace berth::mig
