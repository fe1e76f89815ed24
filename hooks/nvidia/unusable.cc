#include "hooks/nvidia/unusable.hh"

#include <algorithm>
#include <map>

#include "hooks/edits.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

constexpr const char* what_to_do = "see nvidia-smi and dmesg on the node, or take another node (srun -x)";

std::string pci(const std::string& bus) { return "/sys/bus/pci/devices/" + bus; }

/// The kernel driver that has a device, such as "vfio-pci"; empty when none has it, or there is no such device.
std::string kernel_driver(const Host& host, const std::string& bus) {
    std::string target = host.link_target(pci(bus) + "/driver").value_or("");
    return target.substr(target.rfind('/') + 1);
}

/// An NVIDIA device that another driver than NVIDIA's has.
bool is_taken(const Host& host, const std::string& bus) {
    std::string driver = kernel_driver(host, bus);
    return !driver.empty() && driver != "nvidia" && host.begins_with(pci(bus) + "/vendor", "0x10de");
}

/// Whether Slurm has counted the step's GPUs.
bool granted(const Driver& driver, const NvidiaRequest& request) {
    return request.in_slurm && (driver.constrained || request.grant.says != SlurmGrant::Says::nothing);
}

/// What the step may choose from.
size_t count_open(const Driver& driver) {
    size_t out = 0;
    for (const Gpu& gpu : driver.gpus)
        out += gpu.slices.empty() ? gpu.access != Access::denied
                                  : static_cast<size_t>(std::ranges::count(gpu.slices, true, &Slice::open));
    return out;
}

/// The node of a GPU that Slurm has granted and that cannot be used. Where the step may open more than its own, Slurm's
/// numbers are positions. Where it may not, they only tell how many there are.
const StrayNode* missing_grant(const Driver& driver, const NvidiaRequest& request) {
    bool too_few = request.grant.devices.size() > count_open(driver);
    auto is_granted = [&](const StrayNode& stray) {
        if (driver.constrained) return too_few && stray.access == Access::allowed;
        return std::ranges::any_of(request.grant.devices, [&](const SlurmGrant::Device& device) {
            return device.uuid.empty() && device.position == stray.position;
        });
    };
    auto found = std::ranges::find_if(driver.strays, is_granted);
    return found == driver.strays.end() ? nullptr : &*found;
}

/// When several GPUs are unusable, whose node it is cannot be told: all are named.
std::string why_stray(const Driver& driver) {
    if (driver.unusable.empty())
        return "the NVIDIA driver has no such GPU: it has fallen off the bus, or another driver has it";
    std::string out;
    for (const UnusableGpu& one : driver.unusable)
        out += cat(out.empty() ? "of GPU " : ", or of GPU ", printable(one.bus), " (", one.why, ")");
    return "it is the node " + out;
}

}  // namespace

std::string why_unusable(const Host& host, const Gpu& gpu) {
    // What answers on the bus has a vendor.
    if (host.begins_with(pci(normal_bus(gpu.bus)) + "/config", "\xff\xff\xff\xff"))
        return "it has fallen off the bus (its PCI configuration reads as ones)";
    return unusable_gpu(gpu.nvml_error);
}

void check_named_gpus(const Host& host, const Driver& driver, const NvidiaRequest& request) {
    bool slices = std::ranges::any_of(driver.gpus, [](const Gpu& gpu) { return !gpu.slices.empty(); });
    for (const std::string& word : request.devices) {
        auto refuse = [&](const std::string& why) {
            throw Error(cat("NVIDIA_VISIBLE_DEVICES: ", printable(word), " cannot be used: ", why, "; ", what_to_do));
        };
        std::string bus = normal_bus(word);
        bool slice = word.starts_with("MIG-") || (bus.empty() && word.find(':') != std::string::npos);
        if (slice && slices && !driver.nvml_trouble.empty())
            refuse("NVML, which alone knows the UUIDs and numbers of MIG devices, could not be asked: " +
                   driver.nvml_trouble);
        for (const UnusableGpu& one : driver.unusable)
            if (bus.empty() ? word == one.uuid : bus == normal_bus(one.bus)) refuse(one.why);
        if (!bus.empty() && is_taken(host, bus))
            refuse(cat("the kernel's driver ", printable(kernel_driver(host, bus)), " has it, not NVIDIA's"));
    }
}

void check_usable(const Host& host, const Driver& driver, const NvidiaRequest& request, Choice& choice) {
    bool counted = granted(driver, request);
    if (request.all && counted)
        if (const StrayNode* stray = missing_grant(driver, request))
            throw Error(cat("giving the container /dev/nvidia", stray->minor,
                            ", which Slurm has granted to this step: ", why_stray(driver), "; ", what_to_do));
    if (request.all && !counted)
        for (const UnusableGpu& one : driver.unusable)
            choice.warnings.push_back(cat("GPU ", printable(one.bus), " is left out: ", one.why));
    std::map<size_t, std::string> lost;
    for (const Chosen& one : choice.devices)
        if (std::string why = why_unusable(host, driver.gpus[one.gpu]); !why.empty()) lost[one.gpu] = why;
    for (const auto& [gpu, why] : lost) {
        std::string bus = printable(driver.gpus[gpu].bus);
        if (!request.all || counted)
            throw Error(cat("giving the container the GPU ", bus, ": ", why, "; ", what_to_do));
        choice.warnings.push_back(cat("GPU ", bus, " is left out: ", why));
    }
    std::erase_if(choice.devices, [&](const Chosen& one) { return lost.contains(one.gpu); });
}

}  // namespace berth::hooks
