#include "hooks/nvidia/nvml.hh"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

#include "hooks/edits.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

// Of NVIDIA's documentation of NVML: names, types and sizes of what is used here.
using Device = void*;
constexpr int success = 0;
constexpr unsigned text_size = 96;

struct PciInfo {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

/// nvmlBrandType_t in order, spelled as requirements do.
constexpr const char* brands[] = {
    "unknown",   "quadro",      "tesla",     "nvs",        "grid",      "geforce",
    "titan",     "nvidiavapps", "nvidiavpc", "nvidiavcs",  "nvidiavws", "nvidiacloudgaming",
    "quadrortx", "nvidiartx",   "nvidia",    "geforcertx", "titanrtx"};

class Library {
  public:
    explicit Library(const std::string& name) : handle_(::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
        if (!handle_) throw Error(cat("loading ", printable(name), ": ", printable(::dlerror())));
        if (int code = call<int()>("nvmlInit_v2"); code != success)
            throw Error(cat("starting NVML: it answers with error ", code, "; nvidia-smi on the node tells more"));
    }
    ~Library() {
        call<int()>("nvmlShutdown");
        ::dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;

    /// Calls a function; 1 (NVML: not initialised) when the library lacks it.
    template <typename Signature, typename... Arguments>
    int call(const char* name, Arguments... arguments) const {
        auto* function = reinterpret_cast<Signature*>(::dlsym(handle_, name));
        return function ? function(arguments...) : 1;
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

    std::string text() {
        char driver[text_size] = {};
        int cuda = 0;
        nvml_.call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", driver, text_size);
        bool known = nvml_.call<int(int*)>("nvmlSystemGetCudaDriverVersion_v2", &cuda) == success;
        out_ = cat("driver ", word(driver), ' ', known ? cat(cuda / 1000, '.', cuda % 1000 / 10) : "-", '\n');
        unsigned count = 0;
        nvml_.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
        for (unsigned i = 0; i < count; ++i) {
            Device device = nullptr;
            if (nvml_.call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) == success)
                add_gpu(device);
        }
        return std::move(out_);
    }

  private:
    std::string uuid(Device device) const {
        char text[text_size] = {};
        return nvml_.call<int(Device, char*, unsigned)>("nvmlDeviceGetUUID", device, text, text_size) == success ? text
                                                                                                                 : "";
    }

    void add_gpu(Device device) {
        PciInfo pci{};
        unsigned minor = 0, mode = 0, pending = 0;
        int major = 0, lesser = 0;
        unsigned brand = 0;
        if (nvml_.call<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci) != success) return;
        nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetMinorNumber", device, &minor);
        bool arch = nvml_.call<int(Device, int*, int*)>("nvmlDeviceGetCudaComputeCapability", device, &major,
                                                        &lesser) == success;
        bool branded = nvml_.call<int(Device, unsigned*)>("nvmlDeviceGetBrand", device, &brand) == success &&
                       brand < std::size(brands);
        nvml_.call<int(Device, unsigned*, unsigned*)>("nvmlDeviceGetMigMode", device, &mode, &pending);
        pci.bus_id[sizeof pci.bus_id - 1] = '\0';
        out_ += cat("gpu ", word(pci.bus_id), ' ', minor, ' ', word(uuid(device)), ' ',
                    arch ? cat(major, '.', lesser) : "-", ' ', branded ? brands[brand] : "-", ' ',
                    mode ? "mig" : "whole", '\n');
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
            out_ += cat("slice ", i, ' ', gi, ' ', ci, ' ', word(uuid(slice)), '\n');
        }
    }

    const Library& nvml_;
    std::string out_;
};

}  // namespace

std::string nvml_text(const std::string& library) {
    Library nvml(library);
    return Report(nvml).text();
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
                                .slices = {}});
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
