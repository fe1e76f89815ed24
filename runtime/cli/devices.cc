// `berth devices`: what this node has, what this process may open of it, what a container would get, and why not the
// rest.
#include <algorithm>
#include <cstdio>

#include "hooks/list.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/cli/commands.hh"
#include "runtime/cli/listing.hh"
#include "runtime/config/command_line.hh"

namespace berth::cli {

namespace {

using hooks::FamilyList;
using hooks::ListedDevice;

std::string json_device(const ListedDevice& device) {
    auto word = [](bool value) { return value ? "true" : "false"; };
    return cat(R"({"name":)", json_text(device.name), R"(,"what":)", json_text(device.what), R"(,"id":)",
               json_text(device.id), R"(,"bus":)", json_text(device.bus), R"(,"nodes":)", json_list(device.nodes),
               R"(,"open":)", word(device.open), R"(,"usable":)", word(device.usable), R"(,"container":)",
               word(device.given), R"(,"reason":)", json_text(device.why), "}");
}

void print_json(const std::vector<FamilyList>& families) {
    std::string out;
    for (const auto& [vendor, list] : families) {
        std::string devices;
        for (const ListedDevice& device : list.devices)
            devices += cat(devices.empty() ? "\n   " : ",\n   ", json_device(device));
        out += cat(out.empty() ? "\n" : ",\n", R"(  {"family":)", json_text(vendor), R"(,"about":)",
                   json_text(list.about), R"(,"asked":)", json_text(list.asked), R"(,"error":)", json_text(list.error),
                   R"(,"notes":)", json_list(list.notes), R"(,"devices":[)", devices, "]}");
    }
    std::printf("{\"families\":[%s\n]}\n", out.c_str());
}

/// The longest of a column, so that the next one begins behind it.
int width_of(const std::vector<FamilyList>& families, const char* head, std::string ListedDevice::*column) {
    size_t out = std::string_view(head).size();
    for (const auto& [vendor, list] : families)
        for (const ListedDevice& device : list.devices) out = std::max(out, printable(device.*column).size());
    return static_cast<int>(out);
}

void print_text(const std::vector<FamilyList>& families) {
    int name = width_of(families, "DEVICE", &ListedDevice::name),
        what = width_of(families, "WHAT", &ListedDevice::what), bus = width_of(families, "BUS", &ListedDevice::bus);
    bool some = std::ranges::any_of(families, [](const FamilyList& one) { return !one.list.devices.empty(); });
    if (some)
        std::printf("%-8s %-*s  %-*s  %-*s  %-5s %-10s %s\n", "FAMILY", name, "DEVICE", what, "WHAT", bus, "BUS",
                    "OPENS", "CONTAINER", "UUID, OR WHY NOT");
    else
        std::puts("no devices");
    for (const auto& [vendor, list] : families)
        for (const ListedDevice& device : list.devices)
            std::printf("%-8s %-*s  %-*s  %-*s  %-5s %-10s %s\n", vendor.c_str(), name, printable(device.name).c_str(),
                        what, printable(device.what).c_str(), bus, printable(device.bus).c_str(),
                        device.open ? "yes" : "no", device.given ? "yes" : "no",
                        printable(device.given ? device.id : device.why, 1024).c_str());
    for (const auto& [vendor, list] : families) {
        if (!list.about.empty()) std::printf("%s: %s\n", vendor.c_str(), printable(list.about, 1024).c_str());
        if (!list.asked.empty() && !list.devices.empty())
            std::printf("%s: for a container with %s\n", vendor.c_str(), printable(list.asked, 1024).c_str());
        for (const std::string& note : list.notes) std::printf("%s: %s\n", vendor.c_str(), note.c_str());
        if (!list.error.empty())
            std::printf("%s: a container does not start: %s\n", vendor.c_str(), list.error.c_str());
    }
}

}  // namespace

int devices(int argc, char** argv) {
    CommandLine line(
        "List the devices of this node, which of them this process may open, and which a container would get. In a "
        "step of Slurm these are the step's.",
        "berth devices");
    bool json = false;
    line.flag("--json", json, "print JSON");
    if (auto code = line.parse(argc, argv)) return *code;
    std::vector<FamilyList> families =
        hooks::list_devices(hooks::Host(), site_of_caller(), environment_of_this_process());
    json ? print_json(families) : print_text(families);
    return 0;
}

}  // namespace berth::cli
