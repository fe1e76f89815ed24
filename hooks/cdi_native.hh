// Wishes for CDI devices that a family gives by itself, on a node whose specifications do not have its kind.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/makers.hh"

namespace berth::hooks {

/// What is asked for: the site's, and those of BERTH_DEVICES.
std::vector<std::string> asked_cdi_names(const plan::Site& site, const std::vector<std::string>& job);

/// The kind of a specification, as its text shows it, whether or not it can be read as one; empty: it does not.
std::string kind_in(std::string_view text);

/// Whether a name, such as "nvidia.com/gpu=all", is for a maker that has devices here and for no specification of the
/// node. `job` is the caller's environment.
bool is_native(const Host& host, const plan::Site& site, const std::string& name, const std::vector<std::string>& job);

/// The caller's environment as `maker` is to see it, with such names in the variable by which it is asked for devices;
/// nothing without such names.
std::optional<std::vector<std::string>> with_native_devices(const DeviceMaker& maker, const Host& host,
                                                            const plan::Site& site,
                                                            const std::vector<std::string>& image_variables,
                                                            const std::vector<std::string>& job);

}  // namespace berth::hooks
