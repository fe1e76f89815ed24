// Whether a GPU and its driver fulfil an image's NVIDIA_REQUIRE_* variables. Pure.
#pragma once
#include <string>
#include <vector>

#include "hooks/nvidia/request.hh"

namespace berth::hooks {

/// What requirements compare; empty: not known.
struct GpuProperties {
    std::string cuda;    ///< newest CUDA that the driver runs: "12.8"
    std::string driver;  ///< "570.86.15"
    std::string arch;    ///< compute capability: "9.0"
    std::string brand;   ///< "Tesla"
};

enum class Verdict { fulfilled, refused, unknown };

/// A requirement is alternatives with blanks between them, each of conditions with commas between them. `unknown` when
/// it depends on a property that is not known. Throws Error for what is no requirement.
Verdict judge(const Requirement& requirement, const GpuProperties& gpu);

/// Compares versions with dots as numbers, as if followed by zeros: negative, zero or positive. Throws Error naming
/// `what` for what is no version.
int compare_versions(const std::string& one, const std::string& other, const std::string& what);

}  // namespace berth::hooks
