#include "hooks/list.hh"

#include <algorithm>

#include "hooks/cdi_native.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

using Level = DeviceStatus::Level;

DeviceList list_of(const DeviceMaker& maker, const DeviceListRequest& request) {
    DeviceList out;
    if (!maker.list) {
        out.notes.push_back("this family lists no devices; berth plan prints what it adds to a container");
        return out;
    }
    try {
        // What a container is given depends on the image too, which is not known here.
        auto job = with_native_devices(maker, request.host, request.site, {}, request.job);
        out = maker.list({request.host, request.site, job ? *job : request.job});
    } catch (const Error& error) {
        out.error = error.what();
    }
    return out;
}

bool is_disabled(const DeviceMaker& maker, const plan::Site& site) {
    return std::ranges::find(site.devices.disabled, maker.vendor) != site.devices.disabled.end();
}

void take_away(DeviceList& list, const std::string& why) {
    for (ListedDevice& device : list.devices) {
        device.given = false;
        if (device.usable) device.why = why;
    }
    list.error.clear();
}

void add_troubles(std::vector<DeviceStatus>& out, const DeviceList& list, const std::string& subject) {
    for (const ListedDevice& device : list.devices)
        if (!device.usable)
            out.push_back({Level::warning, subject,
                           cat(printable(device.name), " cannot be used: ", printable(device.why, 1024)),
                           "berth devices lists the others; dmesg may say more"});
    if (!list.error.empty())
        out.push_back({Level::warning, subject, "a container started here is refused: " + list.error});
}

/// Where a container gets fewer than can be used.
std::string share_text(const DeviceList& list) {
    auto usable = std::ranges::count(list.devices, true, &ListedDevice::usable);
    auto given = std::ranges::count(list.devices, true, &ListedDevice::given);
    return given < usable ? cat("; a container started here gets ", given, " of ", usable) : "";
}

}  // namespace

std::vector<FamilyList> list_devices(std::span<const DeviceMaker* const> makers, const Host& host,
                                     const plan::Site& site, const std::vector<std::string>& job) {
    std::vector<FamilyList> out;
    for (const DeviceMaker* maker : makers) {
        out.push_back({maker->vendor, list_of(*maker, {host, site, job})});
        if (is_disabled(*maker, site))
            take_away(out.back().list, cat("devices.disabled of berth.conf has \"", maker->vendor, "\""));
    }
    return out;
}

std::vector<FamilyList> list_devices(const Host& host, const plan::Site& site, const std::vector<std::string>& job) {
    return list_devices(device_makers(), host, site, job);
}

std::vector<DeviceStatus> device_statuses(const Host& host, const plan::Site& site,
                                          const std::vector<std::string>& job) {
    std::vector<DeviceStatus> out;
    for (const DeviceMaker* maker : device_makers()) {
        DeviceStatus status;
        status.subject = maker->vendor;
        if (maker->status) out.push_back(status = maker->status(host, site));
        if (is_disabled(*maker, site)) {
            if (maker->status)
                out.back() = {Level::note, status.subject,
                              status.text + "; no container gets them (devices.disabled)"};
            continue;
        }
        DeviceList list = list_of(*maker, {host, site, job});
        if (maker->status && status.level == Level::ok) out.back().text += share_text(list);
        add_troubles(out, list, status.subject);
    }
    return out;
}

}  // namespace berth::hooks
