// CDI specifications (github.com/cncf-tags/container-device-interface, versions 0.3 to 1.1): which changes of a
// container a device is.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "hooks/cdi_edits.hh"

namespace berth::hooks {

struct CdiSpec {
    std::string kind;  ///< "nvidia.com/gpu"
    CdiEdits common;
    std::map<std::string, CdiEdits> devices;
    /// Devices whose edits no container can be given, and why: a hook of somebody else's, an unknown member.
    std::map<std::string, std::string> refused;
    std::string all_refused = {};  ///< likewise of `common`; empty: nothing stands in the way
};

/// Reads a specification, JSON or, with `yaml`, YAML. What is not understood in the edits of one device keeps only that
/// one from containers. Throws Error naming `what` for a version that is not known, and what is no specification.
CdiSpec parse_cdi(std::string_view text, bool yaml, const std::string& what);

/// The JSON of one "containerEdits", as a site's program writes it. Throws Error.
CdiEdits parse_container_edits(std::string_view text, const std::string& what);

/// What the devices ("vendor.com/class=name") are, by the specifications in `folders`, of which a later one counts
/// more. Throws Error for a device that is in none, in two files of one folder, or in a file that cannot be read.
CdiEdits find_cdi_devices(const std::vector<std::string>& folders, const std::vector<std::string>& names);

/// A specification with one device "all", such as parse_cdi() reads. Throws Error for text that is not UTF-8.
std::string cdi_text(const std::string& kind, const CdiEdits& edits);

}  // namespace berth::hooks
