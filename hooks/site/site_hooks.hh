// A site's own hooks and CDI devices: programs that are asked for changes of a container.
#pragma once
#include <string>
#include <vector>

#include "hooks/device_edits.hh"
#include "runtime/config/site.hh"
#include "runtime/plan/plan.hh"

namespace berth {

/// Runs the programs of `site.hooks.folder` in the order of their names, each with the request as JSON on its standard
/// input (man/berth-hooks.7), and adds what they ask for. A folder or program that others than root can write to is
/// refused. Throws Error for a program that fails, or takes too long.
void add_site_hooks(plan::Additions& out, const hooks::Host& host, const hooks::Rootfs& image, const plan::Site& site,
                    const std::vector<std::string>& image_variables, const std::vector<std::string>& environment);

/// The CDI devices of the site and of BERTH_DEVICES in `environment`. Throws Error.
void add_cdi_devices(plan::Additions& out, const hooks::Host& host, const hooks::Rootfs& image, const plan::Site& site,
                     const std::vector<std::string>& environment);

/// Adds all of `more`.
void append(plan::Additions& out, const plan::Additions& more);

}  // namespace berth
