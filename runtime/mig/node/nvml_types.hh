// What is used of NVML's interface for MIG: names, numbers and sizes as NVIDIA's public header nvml.h has them. The
// unit test mig_node_test.cc compares them with that header where a CUDA Toolkit is installed. hooks/nvidia has what a
// start uses; neither part may include the other.
#pragma once

namespace berth::mig::nvml {

using Device = void*;
using GpuInstance = void*;
using ComputeInstance = void*;

/// nvmlReturn_t.
enum Result : int {
    success = 0,
    invalid_argument = 2,
    not_supported = 3,
    no_permission = 4,
    not_found = 6,
    driver_not_loaded = 9,
    function_not_found = 13,
    gpu_is_lost = 15,
    reset_required = 16,
    version_mismatch = 18,
    in_use = 19,
    insufficient_resources = 23,
};

/// nvmlGpuInstancePlacement_t, nvmlComputeInstancePlacement_t.
struct Place {
    unsigned start, size;
};

/// nvmlGpuInstanceProfileInfo_t.
struct GpuProfile {
    unsigned id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, optical_flow;
    unsigned long long memory;
};

/// nvmlGpuInstanceProfileInfo_v2_t.
struct NamedGpuProfile {
    unsigned version;
    unsigned id, peer_to_peer, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, optical_flow;
    unsigned long long memory;
    char name[96];
};

/// nvmlComputeInstanceProfileInfo_t.
struct ComputeProfile {
    unsigned id, slices, instances, multiprocessors, copy_engines, decoders, encoders, jpeg, optical_flow;
};

/// nvmlGpuInstanceInfo_t.
struct GpuInstanceInfo {
    Device device;
    unsigned id, profile;
    Place place;
};

/// nvmlComputeInstanceInfo_t.
struct ComputeInstanceInfo {
    Device device;
    GpuInstance instance;
    unsigned id, profile;
    Place place;
};

/// NVML_STRUCT_VERSION(GpuInstanceProfileInfo, 2).
inline constexpr unsigned named_gpu_profile_version = sizeof(NamedGpuProfile) | 2U << 24;

/// The numbers of NVML_GPU_INSTANCE_PROFILE_* are below this one, with room for those to come.
inline constexpr unsigned gpu_profiles = 64;
/// NVML_COMPUTE_INSTANCE_PROFILE_*.
inline constexpr unsigned compute_profiles = 16;
/// Not less than what any profile has of instances or places.
inline constexpr unsigned most_of_a_kind = 32;
/// Not less than NVML_DEVICE_UUID_V2_BUFFER_SIZE and NVML_DEVICE_NAME_V2_BUFFER_SIZE.
inline constexpr unsigned text_size = 96;

}  // namespace berth::mig::nvml
