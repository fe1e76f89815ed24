// The CDI devices of the site and of BERTH_DEVICES.
#include "hooks/cdi_native.hh"
#include "hooks/edits.hh"
#include "hooks/makers.hh"
#include "hooks/pull_reader.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

/// Without those that another maker gives.
std::vector<std::string> asked_names(const Host& host, const plan::Site& site, const std::vector<std::string>& job) {
    std::vector<std::string> names = asked_cdi_names(site, job);
    std::erase_if(names, [&](const std::string& name) { return is_native(host, site, name, job); });
    return names;
}

CdiEdits edits_of(const std::vector<std::string>& names, const plan::Site& site) {
    std::vector<std::string> arguments;
    for (const std::string& folder : site.devices.cdi_folders)
        arguments.insert(arguments.end(), {"--folder", folder});
    arguments.push_back("--");
    arguments.insert(arguments.end(), names.begin(), names.end());
    return read_by_pull(arguments, "", "the CDI specifications");
}

ListedDevice listed(const std::string& name, const DeviceListRequest& request) {
    ListedDevice out{.name = name, .what = "CDI device"};
    try {
        out.open = true;
        for (const auto& [source, target] : edits_of({name}, request.site).nodes) {
            out.nodes.push_back(source);
            out.open &= request.host.access(source) == Access::allowed;
        }
        out.given = true;
    } catch (const Error& error) {
        out.open = out.usable = false;
        out.why = error.what();
    }
    return out;
}

/// Those that are asked for; which others the specifications have stays in the files.
DeviceList list(const DeviceListRequest& request) {
    DeviceList out;
    for (const std::string& name : asked_names(request.host, request.site, request.job))
        out.devices.push_back(listed(name, request));
    std::string files;
    for (const std::string& folder : request.site.devices.cdi_folders)
        for (const std::string& file : request.host.list(folder))
            files += cat(files.empty() ? "" : ", ", folder, "/", printable(file));
    if (!files.empty())
        out.notes.push_back(cat("a container gets those of BERTH_DEVICES and of devices.cdi; specifications: ", files));
    return out;
}

plan::ContainerEdits make(const DeviceRequest& request) {
    std::vector<std::string> names = asked_names(request.host, request.site, request.job);
    if (names.empty()) return {};
    CdiEdits edits = edits_of(names, request.site);
    plan::ContainerEdits out =
        container_edits_of(edits, request.host, request.image, plan::Origin::of_site("CDI"), request.before);
    if (!tells(request.job)) out.warnings.clear();
    return out;
}

bool grants(const Host& host, const plan::Site& site, const std::vector<std::string>& job) {
    return !asked_names(host, site, job).empty();
}

constexpr const char* keys[] = {"devices.cdi_folders"};

}  // namespace

extern const DeviceMaker cdi_maker{.vendor = "cdi", .make = make, .keys = keys, .list = list, .grants = grants};

}  // namespace berth::hooks
