#include <algorithm>
#include <charconv>
#include <set>

#include "hooks/amd/amd.hh"
#include "hooks/edits.hh"
#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

const std::string asked = "AMD_VISIBLE_DEVICES";
constexpr uint64_t index_limit = 1 << 20;

[[noreturn]] void refuse(const std::string& word, const std::string& why) {
    throw Error(cat(asked, ": ", printable(word), " ", why));
}

/// As AMD's container toolkit writes a GPU's unique id (0xEF2C1799A1F3E2ED, or more than eight digits without 0x), and
/// as ROCm does (GPU-ef2c1799a1f3e2ed).
std::optional<uint64_t> unique_id_of(const std::string& text) {
    std::string word = lower(text);
    bool marked = word.starts_with("0x") || word.starts_with("gpu-");
    std::string digits = marked ? word.substr(word.find_first_of("x-") + 1) : word;
    uint64_t id = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id, 16);
    bool whole = error == std::errc() && end == digits.data() + digits.size();
    return whole && id != 0 && (marked || digits.size() > 8) ? std::optional(id) : std::nullopt;
}

class Chooser {
  public:
    Chooser(const AmdNode& node, const AmdRequest& request) : node_(node), request_(request) {}

    AmdChoice run() {
        for (size_t i = 0; i < node_.gpus.size(); ++i)
            if (node_.gpus[i].access == Access::allowed) open_.push_back(i);
        keep_granted(request_.grant);
        if (open_.empty() && !request_.devices.empty()) of_none();
        if (request_.all) chosen_.insert(open_.begin(), open_.end());
        if (!open_.empty())
            for (const std::string& word : request_.devices) add(word);
        out_.gpus.assign(chosen_.begin(), chosen_.end());
        return std::move(out_);
    }

  private:
    /// As of NVIDIA's GPUs, Slurm's word takes away and adds nothing (docs/adr/0121).
    void keep_granted(const SlurmGrant& grant) {
        if (grant.says == SlurmGrant::Says::none) open_.clear();
        if (grant.says != SlurmGrant::Says::devices) return;
        // What may be opened here can be the job's where the step has less of it.
        if (node_.constrained && (!grant.whole || grant.devices.size() >= open_.size())) return;
        std::set<size_t> kept;
        for (const SlurmGrant::Device& device : grant.devices) {
            auto found = granted_gpu(device);
            if (!found) return tell_foreign(grant, device);
            kept.insert(*found);
        }
        open_.assign(kept.begin(), kept.end());
    }

    void tell_foreign(const SlurmGrant& grant, const SlurmGrant::Device& device) {
        if (node_.constrained) return;
        out_.warnings.push_back(
            cat(printable(grant.source), ": '",
                device.uuid.empty() ? cat(device.position.value_or(0)) : printable(device.uuid),
                "' is no AMD GPU of this node; the container has all of them"));
    }

    std::optional<size_t> granted_gpu(const SlurmGrant::Device& device) const {
        auto id = unique_id_of(device.uuid);
        for (size_t i : open_)
            if (id && node_.gpus[i].unique_id == *id) return i;
        for (size_t i : open_)
            if (device.position == node_.gpus[i].position) return i;
        return std::nullopt;
    }

    /// A step without GPUs is no mistake when an image's default names some; a unique id is nobody's default.
    void of_none() {
        for (const std::string& word : request_.devices)
            if (uint64_t number = 0; !parse_number(word, index_limit, number) && unique_id_of(word))
                refuse(word, "is not allocated to this step, which has no AMD GPU");
        out_.warnings.push_back(asked + " names GPUs, and this step has no AMD GPU");
    }

    void add(const std::string& word) {
        uint64_t first = 0, last = 0;
        size_t dash = word.find('-');
        if (parse_number(word, index_limit, first)) return add_indices(word, first, first);
        if (dash != std::string::npos && parse_number(word.substr(0, dash), index_limit, first) &&
            parse_number(word.substr(dash + 1), index_limit, last) && first <= last)
            return add_indices(word, first, last);
        if (std::string bus = normal_bus(word); !bus.empty())
            return add_those(word, [&](const AmdGpu& gpu) { return gpu.bus == bus; });
        if (auto id = unique_id_of(word))
            return add_those(word, [&](const AmdGpu& gpu) { return gpu.unique_id == *id; });
        refuse(word, "is no index, range of indices, unique id (0x...) or address on the PCI bus");
    }

    void add_indices(const std::string& word, uint64_t first, uint64_t last) {
        if (last >= open_.size())
            refuse(word, cat("is not allocated: this step has ", open_.size(),
                             open_.size() == 1 ? " AMD GPU" : " AMD GPUs", ", counted from 0"));
        for (uint64_t i = first; i <= last; ++i) chosen_.insert(open_[i]);
    }

    /// Parts of a GPU have its address and often its unique id: all of them, as in AMD's toolkit.
    template <typename Matches>
    void add_those(const std::string& word, Matches matches) {
        bool found = false;
        for (size_t i : open_)
            if (matches(node_.gpus[i])) {
                chosen_.insert(i);
                found = true;
            }
        if (!found)
            refuse(word, std::ranges::any_of(node_.gpus, matches)
                             ? "is not allocated to this step"
                             : "is not allocated: no AMD GPU that this step may open is called so");
    }

    const AmdNode& node_;
    const AmdRequest& request_;
    std::vector<size_t> open_;
    std::set<size_t> chosen_;
    AmdChoice out_;
};

}  // namespace

std::string amd_uuid(uint64_t unique_id) {
    char text[32];
    std::snprintf(text, sizeof text, "GPU-%016llx", static_cast<unsigned long long>(unique_id));
    return text;
}

AmdRequest amd_request(const std::vector<std::string>& image, const std::vector<std::string>& job) {
    AmdRequest out;
    const char *of_job = variable(job, asked), *of_image = variable(image, asked);
    if (const char* value = of_job ? of_job : of_image) {
        std::string word = lower(trimmed(value));
        out.wanted = out.named = !word.empty() && word != "none" && word != "void";
        out.all = false;
        if (out.wanted)
            for (const std::string& part : split(value, ',')) {
                std::string token(trimmed(part));
                if (lower(token) == "all") out.all = true;
                if (!token.empty()) out.devices.push_back(token);
            }
        if (out.all) out.devices.clear();
    }
    if (variable(job, "SLURM_JOB_ID")) out.grant = slurm_grant(job, "ROCR_VISIBLE_DEVICES");
    return out;
}

AmdChoice choose_amd(const AmdNode& node, const AmdRequest& request) { return Chooser(node, request).run(); }

std::vector<plan::VisibleDevice> visible_amd_devices(const AmdNode& node, const AmdRequest& request,
                                                     const AmdChoice& choice) {
    std::vector<size_t> order = choice.gpus;
    std::ranges::sort(order, {}, [&](size_t i) { return node.gpus[i].kfd_node; });
    std::vector<plan::VisibleDevice> out;
    for (size_t i : order) {
        const AmdGpu& gpu = node.gpus[i];
        // ROCm finds no device by an id that two have.
        auto same = std::ranges::count_if(node.gpus, [&](const AmdGpu& one) { return one.unique_id == gpu.unique_id; });
        out.push_back({.uuid = gpu.unique_id != 0 && same == 1 ? amd_uuid(gpu.unique_id) : "",
                       .slice = false,
                       .constrained = node.constrained || request.grant.relative,
                       .position = gpu.position,
                       .nodes = {cat("/dev/dri/renderD", gpu.minor)}});
    }
    return out;
}

}  // namespace berth::hooks
