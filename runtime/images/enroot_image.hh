// What Enroot does at each start of an image that it has made: variables in /etc/environment, and /etc/fstab.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/mount/container_image.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// The image's config for a start by somebody with `environment` (NAME=VALUE). In the variables of an image that Enroot
/// has made, ${NAME} stands for one of these, and one that is then empty is left out (src/common.sh of 4.1.2).
plan::ImageConfig config_at_start(const ContainerImage& image, const std::vector<std::string>& environment);

/// Adds the mounts of the /etc/fstab of an image that Enroot has made: each tmpfs, and each bind whose source begins
/// with ${ENROOT_ROOTFS}, which is a path of the image. An image selects nothing of the host: any other line is left
/// out and named to `warn`, at most ten of them. A file of more than 64 KiB is left out as a whole.
void add_image_fstab(std::vector<plan::ContainerEdits>& edits, const ContainerImage& image,
                     const std::vector<std::string>& environment,
                     const std::function<void(const std::string& line)>& warn);

}  // namespace berth
