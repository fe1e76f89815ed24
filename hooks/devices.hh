// The devices of a container: all makers of edits, asked with what this node, the site and the image say.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hooks/host.hh"
#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// What the makers (hooks/makers.hh) add for an image, for a caller with `environment` (NAME=VALUE), each that adds
/// something. `warn` gets a line for each thing that is asked for and cannot be had. Costs a system call or none on a
/// node without such devices. Throws Error.
std::vector<plan::ContainerEdits> device_edits(const ContainerImage& image, const plan::Site& site,
                                               const std::vector<std::string>& environment,
                                               const std::function<void(const std::string&)>& warn);

/// The same with another node's file system.
std::vector<plan::ContainerEdits> device_edits(const hooks::Host& host, const ContainerImage& image,
                                               const plan::Site& site, const std::vector<std::string>& environment,
                                               const std::function<void(const std::string&)>& warn);

/// What the makers would give to a step with `environment` because of what it may have of this node, in a container
/// whose image has the variables `image`. The image's files and the site's own programs have no part in it. Costs a few
/// system calls on a node without such devices. Throws Error as device_edits() does.
plan::DeviceGrant granted_devices(const std::vector<std::string>& image, const plan::Site& site,
                                  const std::vector<std::string>& environment);

/// The same with another node's file system.
plan::DeviceGrant granted_devices(const hooks::Host& host, const std::vector<std::string>& image,
                                  const plan::Site& site, const std::vector<std::string>& environment);

}  // namespace berth
