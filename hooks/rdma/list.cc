// Which RDMA adapters a node has, and what becomes of each in a container.
#include <algorithm>

#include "hooks/rdma/rdma.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

std::string why_not(const Adapter& adapter, plan::RdmaMode mode, const RdmaRequest& request, const DeviceList& list) {
    if (!adapter.open)
        return cat("this process may not open ", adapter.node(),
                   adapter.verbs.empty() ? "" : "; udev's rules of rdma-core make it mode 0666");
    if (mode == plan::RdmaMode::off) return "devices.rdma of berth.conf is \"off\"";
    if (!list.error.empty()) return "no container starts";
    if (request.wanted) return "MELLANOX_VISIBLE_DEVICES does not name it";
    return list.asked.empty() ? "devices.rdma of berth.conf is \"asked\", and MELLANOX_VISIBLE_DEVICES is not set"
                              : "MELLANOX_VISIBLE_DEVICES asks for none";
}

ListedDevice listed(const Host& host, const Adapter& adapter) {
    ListedDevice out{.name = adapter.name,
                     .what = driver_of(host, adapter),
                     .bus = adapter.bus,
                     .nodes = {adapter.node()}};
    for (const std::string& umad : adapter.umads) out.nodes.push_back("/dev/infiniband/" + umad);
    if (adapter.verbs.empty()) out.what = "Slingshot adapter";
    if (out.what.empty()) out.what = "adapter";
    out.open = adapter.open;
    return out;
}

}  // namespace

DeviceList list_rdma(const Host& host, plan::RdmaMode mode, const std::vector<std::string>& job) {
    DeviceList out;
    std::vector<Adapter> adapters = find_adapters(host);
    RdmaRequest request = rdma_request(mode, {}, job);
    if (const char* value = variable(job, "MELLANOX_VISIBLE_DEVICES"))
        out.asked = cat("MELLANOX_VISIBLE_DEVICES=", value);
    std::vector<Adapter> chosen;
    try {
        if (request.wanted) chosen = chosen_adapters(host, adapters, request);
    } catch (const Error& error) {
        out.error = error.what();
    }
    for (const Adapter& adapter : adapters) {
        ListedDevice device = listed(host, adapter);
        device.given =
            std::ranges::any_of(chosen, [&](const Adapter& one) { return one.name == adapter.name; });
        if (!device.given) device.why = why_not(adapter, mode, request, out);
        out.devices.push_back(std::move(device));
    }
    return out;
}

}  // namespace berth::hooks
