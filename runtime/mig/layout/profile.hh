// What a GPU can be divided into, and what it is divided into: values.
#pragma once
#include <compare>
#include <string>
#include <vector>

namespace berth::mig {

/// Slices of the GPU's memory, of which it has eight (or four).
struct Placement {
    unsigned start = 0, size = 0;
    auto operator<=>(const Placement&) const = default;
    bool meets(const Placement& other) const {
        return start < other.start + other.size && other.start < start + size;
    }
};

/// Engines that are given to one GPU instance each.
struct Engines {
    unsigned decoders = 0, jpeg = 0, optical_flow = 0;
    bool operator==(const Engines&) const = default;
};

/// A kind of GPU instance.
struct Profile {
    unsigned id = 0;   ///< NVML's, with which instances are made
    std::string name;  ///< "1g.10gb+me"
    unsigned slices = 0;  ///< of computing
    unsigned most = 0;    ///< instances of it at a time
    Engines engines;
    std::vector<Placement> placements;
    bool operator==(const Profile&) const = default;
};

/// A kind of GPU: what it can be divided into. The profile with most slices has all engines.
struct Model {
    std::string name;  ///< "H100-80GB", or the GPU's own where it is in no table
    std::vector<Profile> profiles;

    const Profile* named(const std::string& profile) const;
    const Profile* numbered(unsigned id) const;
};

/// A part of a GPU instance that computes.
struct Compute {
    unsigned profile = 0;  ///< NVML_COMPUTE_INSTANCE_PROFILE_*: there are two kinds of some sizes
    Placement place;       ///< among the slices of the GPU instance that compute
    bool operator==(const Compute&) const = default;
};

/// The usual one of so many slices, at the start of its GPU instance.
Compute compute_of(unsigned slices);

/// A GPU instance. One of ours has a single compute instance, which fills it.
struct Instance {
    unsigned profile = 0;  ///< NVML's number
    Placement place;
    std::vector<Compute> computes;
    bool operator==(const Instance&) const = default;
    bool same_place(const Instance& other) const { return profile == other.profile && place == other.place; }
};

/// True when both have the same place and parts, in whatever order the driver tells these.
bool same_instance(const Instance& one, const Instance& other);

/// What a GPU in MIG mode is divided into.
using Layout = std::vector<Instance>;

/// True when both have the same instances, whatever their order.
bool same_layout(const Layout& one, const Layout& other);

}  // namespace berth::mig
