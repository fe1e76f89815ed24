// The devices of a container: the hooks, asked with what this node, the site and the image say.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "hooks/nvidia/nvml.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// What all hooks add for an image, for a caller with `environment` (NAME=VALUE). `warn` gets a line for each thing
/// that is asked for and cannot be had. Costs a system call or none on a node without such devices. Throws Error.
plan::Additions device_additions(const ContainerImage& image, const plan::Site& site,
                                 const std::vector<std::string>& environment,
                                 const std::function<void(const std::string&)>& warn);

/// The same with another node's file system, and `nvml` in place of what its library says.
plan::Additions device_additions(const hooks::Host& host, const hooks::NvmlSource& nvml, const ContainerImage& image,
                                 const plan::Site& site, const std::vector<std::string>& environment,
                                 const std::function<void(const std::string&)>& warn);

}  // namespace berth
