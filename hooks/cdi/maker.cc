// The CDI devices of the site and of BERTH_DEVICES.
#include "hooks/makers.hh"
#include "hooks/pull_reader.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

plan::ContainerEdits make(const DeviceRequest& request) {
    std::vector<std::string> names = request.site.devices.cdi;
    if (const char* asked = variable(request.job, "BERTH_DEVICES"))
        for (const std::string& part : split(asked, ','))
            if (std::string name(trimmed(part)); !name.empty()) names.push_back(name);
    if (names.empty()) return {};
    std::vector<std::string> arguments;
    for (const std::string& folder : request.site.devices.cdi_folders)
        arguments.insert(arguments.end(), {"--folder", folder});
    arguments.push_back("--");
    arguments.insert(arguments.end(), names.begin(), names.end());
    CdiEdits edits = read_by_pull(arguments, "", "the CDI specifications");
    return container_edits_of(edits, request.host, request.image, plan::Origin::of_site("CDI"), request.before);
}

constexpr const char* keys[] = {"devices.cdi_folders"};

}  // namespace

extern const DeviceMaker cdi_maker{.vendor = "cdi", .make = make, .keys = keys};

}  // namespace berth::hooks
