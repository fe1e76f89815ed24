#include "hooks/nvidia/request.hh"

#include <map>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/mig.hh"

namespace berth::hooks {

namespace {

constexpr unsigned imex_channel_limit = 1 << 20;

const std::map<std::string, Capability>& capability_names() {
    static const std::map<std::string, Capability> names = {
        {"compute", Capability::compute},   {"utility", Capability::utility}, {"video", Capability::video},
        {"graphics", Capability::graphics}, {"display", Capability::display}, {"ngx", Capability::ngx},
        {"compat32", Capability::compat32},
    };
    return names;
}

std::set<Capability> every_capability() {
    std::set<Capability> all;
    for (const auto& [name, capability] : capability_names()) all.insert(capability);
    return all;
}

std::set<Capability> parse_capabilities(const std::string& text) {
    std::set<Capability> out;
    for (const std::string& part : split(text, ',')) {
        std::string name(trimmed(part));
        if (name.empty()) continue;
        if (name == "all") return every_capability();
        auto found = capability_names().find(name);
        if (found == capability_names().end())
            throw Error(cat("NVIDIA_DRIVER_CAPABILITIES: '", printable(name),
                            "' is none of compute, utility, video, graphics, display, ngx, compat32, all"));
        out.insert(found->second);
    }
    if (out.empty()) return {Capability::utility, Capability::compute};
    // The video libraries stand on CUDA.
    if (out.contains(Capability::video)) out.insert(Capability::compute);
    return out;
}

Numbers parse_channels(const std::string& text) {
    Numbers out;
    for (const std::string& part : split(text, ',')) {
        std::string word(trimmed(part));
        uint64_t number = 0;
        if (word.empty() || lower(word) == "none" || lower(word) == "void") continue;
        if (lower(word) == "all")
            out.all = true;
        else if (parse_number(word, imex_channel_limit - 1, number))
            out.numbers.insert(static_cast<unsigned>(number));
        else
            throw Error(cat("NVIDIA_IMEX_CHANNELS: '", printable(word), "' is no channel (0 to ",
                            imex_channel_limit - 1, "), and neither all nor none"));
    }
    return out;
}

/// The job's variables in front of the image's.
class Variables {
  public:
    Variables(const std::vector<std::string>& image, const std::vector<std::string>& job) : image_(image), job_(job) {}

    const char* find(std::string_view name) const {
        const char* value = variable(job_, name);
        return value ? value : variable(image_, name);
    }
    std::string text(std::string_view name) const {
        const char* value = find(name);
        return value ? value : "";
    }
    bool enabled(std::string_view name) const { return lower(text(name)) == "enabled"; }
    bool yes(std::string_view name) const {
        std::string value = lower(text(name));
        return value == "true" || value == "1" || value == "yes" || value == "t";
    }

    /// NAME=TEXT of all variables whose names start so, without that start; the job's in place of the image's.
    std::vector<Requirement> with_start(std::string_view start) const {
        std::map<std::string, std::string> found;
        for (const auto* environment : {&job_, &image_})
            for (const std::string& text : *environment)
                if (size_t equals = text.find('='); text.starts_with(start) && equals != std::string::npos)
                    found.emplace(text.substr(start.size(), equals - start.size()), text.substr(equals + 1));
        std::vector<Requirement> out;
        for (const auto& [name, value] : found) out.push_back({name, value});
        return out;
    }

  private:
    const std::vector<std::string>& image_;
    const std::vector<std::string>& job_;
};

void take_devices(NvidiaRequest& request, const char* value, bool legacy) {
    std::string text(value ? trimmed(value) : std::string_view(legacy ? "all" : ""));
    std::string word = lower(text);
    if (word.empty() || word == "void") return;
    request.wanted = true;
    if (word == "none") return;
    for (const std::string& part : split(text, ',')) {
        std::string token(trimmed(part));
        if (lower(token) == "all") request.all = true;
        if (!token.empty()) request.devices.push_back(token);
    }
    if (request.all) request.devices.clear();
}

/// "12.2" of "12.2.140": images from before 2018 say no more than that they have CUDA.
std::string major_minor(const std::string& version) {
    std::vector<std::string> parts = split(version, '.');
    return parts.size() < 2 ? version : cat(parts[0], '.', parts[1]);
}

}  // namespace

NvidiaRequest nvidia_request(const std::vector<std::string>& image, const std::vector<std::string>& job) {
    Variables variables(image, job);
    NvidiaRequest request;
    bool legacy = variable(image, "CUDA_VERSION") && !variables.find("NVIDIA_REQUIRE_CUDA");
    take_devices(request, variables.find("NVIDIA_VISIBLE_DEVICES"), legacy);
    if (!request.wanted) return request;
    const char* capabilities = variables.find("NVIDIA_DRIVER_CAPABILITIES");
    request.capabilities =
        !capabilities && legacy ? every_capability() : parse_capabilities(capabilities ? capabilities : "");
    if (!variables.yes("NVIDIA_DISABLE_REQUIRE")) {
        request.requirements = variables.with_start("NVIDIA_REQUIRE_");
        if (legacy) request.requirements.push_back({"CUDA", "cuda>=" + major_minor(variable(image, "CUDA_VERSION"))});
    }
    if (const char* channels = variables.find("NVIDIA_IMEX_CHANNELS")) request.imex_channels = parse_channels(channels);
    request.gdrcopy = variables.enabled("NVIDIA_GDRCOPY");
    request.gds = variables.enabled("NVIDIA_GDS");
    request.nvswitch = variables.enabled("NVIDIA_NVSWITCH");
    // Paths of the node are for the job to name, never for an image.
    if (const char* mps = variable(job, "CUDA_MPS_PIPE_DIRECTORY")) request.mps_directory = mps;
    request.in_slurm = variable(job, "SLURM_JOB_ID") != nullptr;
    if (request.in_slurm) request.grant = slurm_grant(job, "CUDA_VISIBLE_DEVICES");
    request.divided = !value_in(job, plan::mig_variable).empty();
    for (const char* name : {"NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"})
        if (variables.find(name))
            request.warnings.push_back(cat(name, " has no effect: the node lets only root configure and watch MIG"));
    return request;
}

}  // namespace berth::hooks
