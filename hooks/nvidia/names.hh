// What the parts of the NVIDIA driver are called, and which capability asks for them. tests/fixtures/drivers has lists
// of files of drivers, in which each of these names occurs; scripts/check-driver-names deletes them one by one.
#pragma once
#include <span>

#include "hooks/nvidia/request.hh"

namespace berth::hooks {

/// A part with one name, for one capability or for two. Display takes what graphics takes.
struct DriverPart {
    const char* name;
    Capability capability, also;
    constexpr DriverPart(const char* part, Capability one) : DriverPart(part, one, one) {}
    constexpr DriverPart(const char* part, Capability one, Capability other)
        : name(part), capability(one), also(other) {}
};

/// Libraries whose file ends in the driver's version: "libcuda" is "libcuda.so.570.86.15".
std::span<const DriverPart> driver_libraries();
/// Libraries with a version of their own, by their SONAME.
std::span<const DriverPart> companion_libraries();
/// What may follow "libcuda.so" in the names of links, a SONAME before what stands on it.
std::span<const char* const> library_link_endings();
std::span<const DriverPart> driver_programs();
/// Paths of the sockets of services.
std::span<const DriverPart> driver_sockets();
/// Paths of configurations and data.
std::span<const DriverPart> driver_configurations();
/// A node that comes with a capability where there is one.
struct CapabilityNode {
    const char* path;
    Capability capability;
    const char* reason;
};
std::span<const CapabilityNode> capability_nodes();

/// Nodes beside those of GPUs, by how their names below /dev begin.
struct HelperNodes {
    const char* start;
    const char* variable;        ///< asks for them
    bool NvidiaRequest::*asked;  ///< that variable
};
std::span<const HelperNodes> helper_nodes();

}  // namespace berth::hooks
