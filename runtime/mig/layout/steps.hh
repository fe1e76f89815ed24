// From one layout of a GPU to another: the steps, in an order that the driver takes.
#pragma once
#include <string>
#include <vector>

#include "runtime/mig/layout/profile.hh"

namespace berth::mig {

/// One call of NVML that changes something.
struct Step {
    enum class Kind { destroy_compute, destroy_instance, create_instance, create_compute };
    Kind kind = Kind::create_instance;
    Instance instance;  ///< whose it is; its compute instances do not matter
    Compute compute;    ///< of the steps with one
    bool operator==(const Step&) const = default;
};

/// The steps from `now` to `wanted`; none when they are the same. What both have stays. Everything is destroyed before
/// anything is made, and compute instances are destroyed before their GPU instance and made after it: with disjoint
/// places that order is legal for any two layouts.
std::vector<Step> steps_between(const Layout& now, const Layout& wanted);

/// "create 3g.40gb at 4:4", for logs.
std::string text_of(const Step& step, const Model& model);

}  // namespace berth::mig
