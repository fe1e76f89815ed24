#include "hooks/nvidia/driver.hh"

#include <algorithm>
#include <climits>

#include "hooks/edits.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::hooks {

namespace {

const std::string proc = "/proc/driver/nvidia";

/// The number behind a fixed start ("gi7"); nothing for another name.
std::optional<unsigned> numbered(const std::string& name, std::string_view start) {
    uint64_t number = 0;
    if (!name.starts_with(start) || !parse_number(std::string_view(name).substr(start.size()), 1 << 20, number))
        return std::nullopt;
    return static_cast<unsigned>(number);
}

/// Readers of nodes of the driver's capabilities: readable by all, writable by nobody.
bool may_read(const Host& host, const std::string& path) { return host.access(path, true) == Access::allowed; }

class Finder {
  public:
    Finder(const Host& host, const DriverRoots& roots) : host_(host), roots_(roots) {}

    Driver find() {
        Driver driver;
        driver.module_version = parse_module_version(host_.read(proc + "/version").value_or(""));
        if (driver.module_version.empty())
            throw Error(cat("looking at the NVIDIA driver: ", proc, "/version names no version"));
        driver.cuda = cuda_of_driver(driver.module_version);
        driver.majors = parse_majors(host_.read("/proc/devices").value_or(""));
        driver.params = host_.read(proc + "/params").value_or("");
        for (const std::string& bus : host_.list(proc + "/gpus")) add_gpu(driver, bus);
        std::sort(driver.gpus.begin(), driver.gpus.end(),
                  [](const Gpu& one, const Gpu& other) { return one.bus < other.bus; });
        add_strays(driver);
        number(driver);
        for (const StrayNode& stray : driver.strays) driver.constrained |= stray.access == Access::denied;
        for (const Gpu& gpu : driver.gpus) {
            driver.constrained |= gpu.access == Access::denied;
            for (const Slice& slice : gpu.slices) driver.constrained |= !slice.open;
        }
        return driver;
    }

  private:
    void add_gpu(Driver& driver, const std::string& bus) {
        std::string text = host_.read(proc + "/gpus/" + bus + "/information").value_or("");
        auto gpu = parse_gpu(text);
        if (!gpu || gpu->excluded) {
            driver.unusable.push_back({bus, gpu ? gpu->uuid : "", why_unusable(text, gpu.has_value())});
            return;
        }
        gpu->bus = bus;
        gpu->access = host_.access(roots_.devices + gpu_node(*gpu));
        add_slices(*gpu);
        driver.gpus.push_back(std::move(*gpu));
    }

    /// The driver writes nothing when it cannot wake the GPU.
    static const char* why_unusable(const std::string& information, bool numbered) {
        if (numbered) return "the driver leaves it out (GPU Excluded)";
        return information.empty() ? "the driver cannot reach it; it may have fallen off the bus"
                                   : "the driver gives it no device minor";
    }

    void add_strays(Driver& driver) {
        for (const std::string& name : host_.list(roots_.devices + "/dev")) {
            auto minor = numbered(name, "nvidia");
            if (!minor || std::ranges::any_of(driver.gpus, [&](const Gpu& gpu) { return gpu.minor == *minor; }))
                continue;
            driver.strays.push_back({*minor, host_.access(roots_.devices + "/dev/" + name), 0});
        }
    }

    void add_slices(Gpu& gpu) {
        std::string folder = cat(proc, "/capabilities/gpu", gpu.minor, "/mig");
        for (const std::string& gi : host_.list(folder)) {
            auto gpu_instance = numbered(gi, "gi");
            if (!gpu_instance) continue;
            for (const std::string& ci : host_.list(folder + "/" + gi))
                if (auto compute_instance = numbered(ci, "ci"))
                    gpu.slices.push_back(slice(gpu, *gpu_instance, *compute_instance));
        }
        auto key = [](const Slice& slice) { return std::pair(slice.gpu_instance, slice.compute_instance); };
        std::sort(gpu.slices.begin(), gpu.slices.end(),
                  [&](const Slice& one, const Slice& other) { return key(one) < key(other); });
    }

    Slice slice(const Gpu& gpu, unsigned gpu_instance, unsigned compute_instance) {
        Slice out;
        out.gpu_instance = gpu_instance;
        out.compute_instance = compute_instance;
        std::string folder = cat(proc, "/capabilities/gpu", gpu.minor, "/mig/gi", gpu_instance);
        out.gpu_cap = parse_cap_minor(host_.read(folder + "/access").value_or(""));
        out.compute_cap = parse_cap_minor(host_.read(cat(folder, "/ci", compute_instance, "/access")).value_or(""));
        auto open = [&](const std::optional<unsigned>& cap) {
            return !cap || may_read(host_, roots_.devices + cap_node(*cap));
        };
        // A slice whose nodes nobody can name counts as the step's, so that asking for it is an error and not silence;
        // so does one whose GPU's node is missing.
        out.open = gpu.access != Access::denied && open(out.gpu_cap) && open(out.compute_cap);
        return out;
    }

    /// In Slurm's order: device files by number, the slices of a GPU in its place.
    static void number(Driver& driver) {
        std::vector<Gpu*> order;
        for (Gpu& gpu : driver.gpus) order.push_back(&gpu);
        std::ranges::sort(order, {}, &Gpu::minor);
        std::ranges::sort(driver.strays, {}, &StrayNode::minor);
        unsigned next = 0;
        auto stray = driver.strays.begin();
        auto count_strays = [&](unsigned before) {
            for (; stray != driver.strays.end() && stray->minor < before; ++stray) stray->position = next++;
        };
        for (Gpu* gpu : order) {
            count_strays(gpu->minor);
            gpu->position = next;
            for (Slice& slice : gpu->slices) slice.position = next++;
            if (gpu->slices.empty()) ++next;
        }
        count_strays(UINT_MAX);
    }

    const Host& host_;
    const DriverRoots& roots_;
};

}  // namespace

bool has_driver(const Host& host) { return host.exists(proc + "/version"); }

std::optional<Driver> find_driver(const Host& host, const DriverRoots& roots) {
    if (!has_driver(host)) return std::nullopt;
    return Finder(host, roots).find();
}

void add_nvml(Driver& driver, const NvmlReport& report) {
    driver.nvml_trouble = report.trouble;
    if (!report.cuda.empty()) driver.cuda = report.cuda;
    for (Gpu& gpu : driver.gpus)
        for (const NvmlGpu& told : report.gpus) {
            if (told.bus != normal_bus(gpu.bus)) continue;
            if (!told.uuid.empty()) gpu.uuid = told.uuid;
            gpu.nvml_error = told.error;
            gpu.arch = told.arch;
            gpu.brand = told.brand;
            gpu.mig = told.mig;
            for (Slice& slice : gpu.slices)
                for (const NvmlSlice& other : told.slices)
                    if (other.gpu_instance == slice.gpu_instance && other.compute_instance == slice.compute_instance) {
                        slice.uuid = other.uuid;
                        slice.index = other.index;
                        slice.indexed = true;
                    }
        }
}

std::string gpu_node(const Gpu& gpu) { return cat("/dev/nvidia", gpu.minor); }
std::string cap_node(unsigned minor) { return cat("/dev/nvidia-caps/nvidia-cap", minor); }

}  // namespace berth::hooks
