#include "hooks/nvidia/choose.hh"

#include <algorithm>

#include "hooks/edits.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

const std::string asked = "NVIDIA_VISIBLE_DEVICES";

const std::string& uuid_of(const Driver& driver, const Chosen& one) {
    const Gpu& gpu = driver.gpus[one.gpu];
    return one.slice ? gpu.slices[*one.slice].uuid : gpu.uuid;
}

/// Where Slurm counts a GPU that is a single device for it, in MIG devices or not.
unsigned position_as_one(const Driver& driver, const Gpu& gpu) {
    unsigned out = gpu.position;
    for (const Gpu& other : driver.gpus)
        if (other.position < gpu.position && !other.slices.empty())
            out -= static_cast<unsigned>(other.slices.size()) - 1;
    return out;
}

/// How Slurm knows a device: a GPU that is divided for the job is a single one for it.
class SlurmsView {
  public:
    SlurmsView(const Driver& driver, const NvidiaRequest& request) : driver_(driver), divided_(request.divided) {}

    const std::string& uuid(const Chosen& one) const {
        return divided_ ? driver_.gpus[one.gpu].uuid : uuid_of(driver_, one);
    }
    unsigned position(const Chosen& one) const {
        const Gpu& gpu = driver_.gpus[one.gpu];
        if (divided_) return position_as_one(driver_, gpu);
        return one.slice ? gpu.slices[*one.slice].position : gpu.position;
    }
    size_t count(const std::set<Chosen>& all) const {
        if (!divided_) return all.size();
        std::set<size_t> gpus;
        for (const Chosen& one : all) gpus.insert(one.gpu);
        return gpus.size();
    }
    /// Those of `open` that Slurm means: the MIG devices of a divided GPU, else one at most.
    std::set<Chosen> meant(const std::set<Chosen>& open, const SlurmGrant::Device& device) const {
        std::set<Chosen> out;
        for (const Chosen& one : open)
            if (!device.uuid.empty() && uuid(one) == device.uuid) out.insert(one);
        if (!out.empty()) return out;
        for (const Chosen& one : open)
            if (device.position == position(one)) out.insert(one);
        return out;
    }

  private:
    const Driver& driver_;
    bool divided_;
};

std::set<Chosen> open_devices(const Driver& driver) {
    std::set<Chosen> out;
    for (size_t i = 0; i < driver.gpus.size(); ++i) {
        const Gpu& gpu = driver.gpus[i];
        if (gpu.access == Access::denied) continue;
        // A node that is missing is told when the GPU is used.
        if (gpu.slices.empty()) out.insert({i, std::nullopt});
        for (size_t slice = 0; slice < gpu.slices.size(); ++slice)
            if (gpu.slices[slice].open) out.insert({i, slice});
    }
    return out;
}

/// What Slurm has granted; nothing when one of these is not among the devices that are open. Then `missing` is set.
std::optional<std::set<Chosen>> granted_devices(const SlurmsView& slurm, const std::set<Chosen>& open,
                                                const SlurmGrant& grant, const SlurmGrant::Device** missing) {
    std::set<Chosen> out;
    for (const SlurmGrant::Device& device : grant.devices) {
        std::set<Chosen> found = slurm.meant(open, device);
        if (found.empty()) {
            *missing = &device;
            return std::nullopt;
        }
        out.merge(found);
    }
    return out;
}

bool is_uuid(const std::string& word) { return word.starts_with("GPU-") || word.starts_with("MIG-"); }

class Chooser {
  public:
    Chooser(const Driver& driver, const NvidiaRequest& request) : driver_(driver), request_(request) {
        Reach reach = reach_of(driver, request);
        open_ = std::move(reach.granted);
        choice_.warnings = std::move(reach.warnings);
    }

    Choice run() {
        if (open_.empty()) {
            if (!request_.devices.empty()) choose_named_of_none();
            return std::move(choice_);
        }
        if (request_.all) choice_.devices = open_;
        for (const std::string& word : request_.devices) choose_named(word);
        for (const Chosen& chosen : choice_.devices)
            if (!chosen.slice && driver_.gpus[chosen.gpu].mig && driver_.gpus[chosen.gpu].slices.empty())
                choice_.warnings.push_back(
                    cat("GPU ", driver_.gpus[chosen.gpu].bus,
                        " is in MIG mode and has no MIG devices: programs will find no GPU in it"));
        return std::move(choice_);
    }

  private:
    /// A step without GPUs is no mistake when an image's default names some; a UUID is nobody's default.
    void choose_named_of_none() {
        for (const std::string& word : request_.devices)
            if (is_uuid(word)) refuse(word, "is not allocated to this step, which has no GPU");
        choice_.warnings.push_back(cat(asked, " names GPUs, and this step has none"));
    }

    [[noreturn]] static void refuse(const std::string& word, const std::string& why) {
        throw Error(cat(asked, ": ", printable(word), " ", why));
    }

    /// The GPUs of which the step has something, in the order of the bus: what indices count.
    std::vector<size_t> listed() const {
        std::vector<size_t> out;
        for (const Chosen& one : open_)
            if (out.empty() || out.back() != one.gpu) out.push_back(one.gpu);
        return out;
    }

    size_t gpu_at(const std::string& word, const std::string& text) const {
        std::vector<size_t> gpus = listed();
        uint64_t number = 0;
        if (!parse_number(text, 1 << 20, number)) refuse(word, "is no index, GPU:MIG, UUID or address on the PCI bus");
        if (number >= gpus.size())
            refuse(word, cat("is not allocated: this step has ", gpus.size(), gpus.size() == 1 ? " GPU" : " GPUs",
                             ", counted from 0"));
        return gpus[number];
    }

    void choose_named(const std::string& word) {
        if (is_uuid(word)) return choose_uuid(word);
        if (std::string bus = normal_bus(word); !bus.empty()) return choose_bus(word, bus);
        size_t colon = word.find(':');
        size_t gpu = gpu_at(word, word.substr(0, colon));
        if (colon == std::string::npos)
            choice_.devices.insert({gpu, std::nullopt});
        else
            choose_slice(word, gpu, word.substr(colon + 1));
    }

    void choose_slice(const std::string& word, size_t gpu, const std::string& text) {
        uint64_t number = 0;
        if (!parse_number(text, 1 << 20, number)) refuse(word, "is no GPU:MIG pair of indices");
        const std::vector<Slice>& slices = driver_.gpus[gpu].slices;
        if (std::none_of(slices.begin(), slices.end(), [](const Slice& slice) { return slice.indexed; }))
            refuse(word, slices.empty()
                             ? "names a MIG device of a GPU that has none"
                             : "cannot be told: NVML, which numbers MIG devices, could not be loaded; use the UUID");
        for (size_t i = 0; i < slices.size(); ++i)
            if (slices[i].indexed && slices[i].index == number && open_.contains({gpu, i})) {
                choice_.devices.insert({gpu, i});
                return;
            }
        refuse(word, "names a MIG device that is not allocated to this step or not there");
    }

    void choose_bus(const std::string& word, const std::string& bus) {
        for (size_t gpu : listed())
            if (normal_bus(driver_.gpus[gpu].bus) == bus) {
                choice_.devices.insert({gpu, std::nullopt});
                return;
            }
        bool there = std::any_of(driver_.gpus.begin(), driver_.gpus.end(),
                                 [&](const Gpu& gpu) { return normal_bus(gpu.bus) == bus; });
        refuse(word, there ? "is not allocated to this step" : "is no GPU of this node");
    }

    void choose_uuid(const std::string& word) {
        for (const Chosen& one : open_)
            if (uuid_of(driver_, one) == word) {
                choice_.devices.insert(one);
                return;
            }
        for (size_t gpu : listed())
            if (driver_.gpus[gpu].uuid == word) {
                choice_.devices.insert({gpu, std::nullopt});
                return;
            }
        refuse(word, there(word)
                         ? "is not allocated to this step"
                         : "is not allocated: no GPU of this step, and none that this node tells of, has this UUID");
    }

    bool there(const std::string& uuid) const {
        for (const Gpu& gpu : driver_.gpus)
            if (gpu.uuid == uuid || std::any_of(gpu.slices.begin(), gpu.slices.end(),
                                                [&](const Slice& slice) { return slice.uuid == uuid; }))
                return true;
        return false;
    }

    const Driver& driver_;
    const NvidiaRequest& request_;
    std::set<Chosen> open_;  ///< and granted
    Choice choice_;
};

}  // namespace

Reach reach_of(const Driver& driver, const NvidiaRequest& request) {
    const SlurmGrant& grant = request.grant;
    Reach out{open_devices(driver), {}};
    out.granted = out.open;
    if (grant.says == SlurmGrant::Says::none) out.granted.clear();
    if (grant.says != SlurmGrant::Says::devices) return out;
    // What may be opened here can be the job's where the step has less of it. Slurm's word takes away and adds nothing:
    // where it names what may not be opened, its count is another one than ours.
    SlurmsView slurm(driver, request);
    if (driver.constrained && (!grant.whole || grant.devices.size() >= slurm.count(out.open))) return out;
    const SlurmGrant::Device* missing = nullptr;
    if (auto granted = granted_devices(slurm, out.open, grant, &missing))
        out.granted = *granted;
    else if (!driver.constrained)
        out.warnings.push_back(
            cat(printable(grant.source), ": '",
                missing->uuid.empty() ? cat(missing->position.value_or(0)) : printable(missing->uuid),
                "' is no device of this node; the container has all of them"));
    return out;
}

bool needs_nvml(const Driver& driver, const NvidiaRequest& request) {
    bool slices = std::any_of(driver.gpus.begin(), driver.gpus.end(),
                              [](const Gpu& gpu) { return gpu.access == Access::allowed && !gpu.slices.empty(); });
    bool hidden = std::any_of(driver.gpus.begin(), driver.gpus.end(),
                              [](const Gpu& gpu) { return gpu.access == Access::allowed && gpu.uuid.empty(); });
    bool named = std::any_of(request.devices.begin(), request.devices.end(),
                             [](const std::string& word) { return is_uuid(word); });
    bool pairs = std::any_of(request.devices.begin(), request.devices.end(), [](const std::string& word) {
        return word.find(':') != std::string::npos && normal_bus(word).empty();
    });
    // Tasks of a step get UUIDs where Slurm's numbers are wrong.
    return pairs || (slices && (named || request.in_slurm)) || (hidden && (named || request.in_slurm));
}

Choice choose(const Driver& driver, const NvidiaRequest& request) { return Chooser(driver, request).run(); }

std::vector<plan::VisibleDevice> visible_devices(const Driver& driver, const NvidiaRequest& request,
                                                 const Choice& choice) {
    std::vector<plan::VisibleDevice> out;
    for (const Chosen& one : choice.devices) {
        const Gpu& gpu = driver.gpus[one.gpu];
        plan::VisibleDevice device;
        device.constrained = driver.constrained || request.grant.relative;
        device.nodes = {gpu_node(gpu)};
        device.uuid = gpu.uuid;
        device.position = gpu.position;
        if (one.slice) {
            const Slice& slice = gpu.slices[*one.slice];
            device.uuid = slice.uuid;
            device.slice = true;
            device.position = slice.position;
            for (const auto& cap : {slice.gpu_cap, slice.compute_cap})
                if (cap) device.nodes.push_back(cap_node(*cap));
        } else if (!gpu.slices.empty()) {
            // The parent of slices alone is nothing that CUDA can use.
            continue;
        }
        out.push_back(std::move(device));
    }
    return out;
}

}  // namespace berth::hooks
