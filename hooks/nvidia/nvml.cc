#include "hooks/nvidia/nvml.hh"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "hooks/edits.hh"
#include "hooks/nvidia/nvml_types.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

using namespace nvml;

/// As the header calls them, for a sentence.
std::string error_name(int code) {
    switch (code) {
        case not_supported: return "NOT_SUPPORTED";
        case no_permission: return "NO_PERMISSION";
        case not_found: return "NOT_FOUND";
        case insufficient_power: return "INSUFFICIENT_POWER";
        case driver_not_loaded: return "DRIVER_NOT_LOADED";
        case irq_issue: return "IRQ_ISSUE";
        case gpu_is_lost: return "GPU_IS_LOST";
        case reset_required: return "RESET_REQUIRED";
        case operating_system: return "OPERATING_SYSTEM";
        case version_mismatch: return "LIB_RM_VERSION_MISMATCH";
        default: return cat("error ", code);
    }
}

class Library {
  public:
    explicit Library(const std::string& name) : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (!handle_) throw Error(cat("loading ", printable(name), ": ", printable(::dlerror())));
        if (int code = call<int()>("nvmlInit_v2"); code != success)
            throw Error(cat("starting NVML: it answers ", error_name(code), "; nvidia-smi on the node tells more"));
    }
    ~Library() {
        call<int()>("nvmlShutdown");
        ::dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    /// Calls a function; function_not_found when the library lacks it.
    template <typename Signature, typename... Arguments>
    int call(const char* name, Arguments... arguments) const {
        auto* function = reinterpret_cast<Signature*>(::dlsym(handle_, name));
        return function ? function(arguments...) : function_not_found;
    }

  private:
    void* handle_;
};

std::string word(const std::string& text) {
    return text.empty() || text.find_first_of(" \n") != std::string::npos ? "-" : text;
}

class Report {
  public:
    explicit Report(const Library& nvml) : nvml_(nvml) {}

    std::string text(const std::vector<std::string>& buses) {
        char driver[text_size] = {};
        int cuda = 0;
        nvml_.call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", driver, text_size);
        bool known = nvml_.call<int(int*)>("nvmlSystemGetCudaDriverVersion_v2", &cuda) == success;
        out_ = cat("driver ", word(driver), ' ', known ? cat(cuda / 1000, '.', cuda % 1000 / 10) : "-", '\n');
        if (buses.empty()) add_all();
        for (const std::string& bus : buses) {
            Device device = nullptr;
            int code = nvml_.call<int(const char*, Device*)>("nvmlDeviceGetHandleByPciBusId_v2", bus.c_str(), &device);
            code == success ? add_gpu(device, bus) : add_error(bus, code);
        }
        return std::move(out_);
    }

  private:
    void add_all() {
        unsigned count = 0;
        nvml_.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
        for (unsigned i = 0; i < count; ++i) {
            Device device = nullptr;
            if (nvml_.call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) == success)
                add_gpu(device, "");
        }
    }

    void add_error(const std::string& bus, int code) {
        if (!bus.empty()) out_ += cat("error ", word(bus), ' ', code, '\n');
    }

    /// The result of the call; `out` is empty when it is no success.
    int read_uuid(Device device, std::string& out) const {
        char text[text_size] = {};
        int code = nvml_.call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", device, text, text_size);
        out = code == success ? text : "";
        return code;
    }

    void add_gpu(Device device, const std::string& bus) {
        PciInfo pci{};
        unsigned minor = 0, mode = 0, pending = 0;
        int major = 0, lesser = 0;
        unsigned brand = 0;
        std::string uuid;
        if (int code = nvml_.call<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci); code != success)
            return add_error(bus, code);
        pci.bus_id[sizeof pci.bus_id - 1] = '\0';
        // A handle can be had of some GPUs that are lost.
        if (int code = read_uuid(device, uuid); !unusable_gpu(code).empty()) return add_error(pci.bus_id, code);
        nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetMinorNumber", device, &minor);
        bool arch = nvml_.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major,
                                                        &lesser) == success;
        bool branded = nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetBrand", device, &brand) == success &&
                       brand < std::size(brands);
        if (nvml_.call<int(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &mode, &pending) != success)
            mode = 0;
        out_ += cat("gpu ", word(pci.bus_id), ' ', minor, ' ', word(uuid), ' ', arch ? cat(major, '.', lesser) : "-",
                    ' ', branded ? brands[brand] : "-", ' ', mode ? "mig" : "whole", '\n');
        if (mode) add_slices(device);
    }

    void add_slices(Device gpu) {
        unsigned count = 0;
        nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetMaxMigDeviceCount", gpu, &count);
        for (unsigned i = 0; i < count; ++i) {
            Device slice = nullptr;
            unsigned gi = 0, ci = 0;
            // A number without a device is a hole, not the end.
            if (nvml_.call<int(Device, unsigned, Device*)>("nvmlDeviceGetMigDeviceHandleByIndex", gpu, i, &slice) !=
                success)
                continue;
            if (nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetGpuInstanceId", slice, &gi) != success) continue;
            if (nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetComputeInstanceId", slice, &ci) != success) continue;
            std::string uuid;
            read_uuid(slice, uuid);
            out_ += cat("slice ", i, ' ', gi, ' ', ci, ' ', word(uuid), '\n');
        }
    }

    const Library& nvml_;
    std::string out_;
};

}  // namespace

std::string nvml_text(const std::string& library, const std::vector<std::string>& buses) {
    Library nvml(library);
    return Report(nvml).text(buses);
}

std::string unusable_gpu(int code) {
    switch (code) {
        case insufficient_power:
        case irq_issue:
        case gpu_is_lost:
        case reset_required: return cat("NVML answers ", error_name(code));
        default: return {};
    }
}

namespace {

[[noreturn]] void refuse(const std::string& line) {
    throw Error(cat("reading what NVML says: '", printable(line), "' is not understood"));
}

unsigned number_of(const std::string& word, const std::string& line) {
    uint64_t out = 0;
    if (!parse_number(word, 1 << 20, out)) refuse(line);
    return static_cast<unsigned>(out);
}

std::string optional_word(const std::string& word) { return word == "-" ? "" : word; }

}  // namespace

NvmlReport parse_nvml(const std::string& text) {
    NvmlReport out;
    for (const std::string& line : split(text, '\n')) {
        if (line.empty()) continue;
        std::vector<std::string> words = split(line, ' ');
        if (words[0] == "driver" && words.size() == 3) {
            out.driver = words[1];
            out.cuda = optional_word(words[2]);
        } else if (words[0] == "gpu" && words.size() == 7) {
            out.gpus.push_back({.bus = normal_bus(words[1]),
                                .minor = number_of(words[2], line),
                                .uuid = optional_word(words[3]),
                                .arch = optional_word(words[4]),
                                .brand = optional_word(words[5]),
                                .mig = words[6] == "mig",
                                .error = 0,
                                .slices = {}});
        } else if (words[0] == "error" && words.size() == 3) {
            NvmlGpu gpu;
            gpu.bus = normal_bus(words[1]);
            gpu.error = static_cast<int>(number_of(words[2], line));
            out.gpus.push_back(gpu);
        } else if (words[0] == "slice" && words.size() == 5 && !out.gpus.empty()) {
            out.gpus.back().slices.push_back(
                {number_of(words[1], line), number_of(words[2], line), number_of(words[3], line), words[4]});
        } else {
            refuse(line);
        }
    }
    return out;
}

}  // namespace berth::hooks
