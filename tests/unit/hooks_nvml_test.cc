// NVML by a stand-in (tests/fixtures/fake_nvml.cc), and what of its interface is written down here.
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAS_NVML_HEADER 1
#elif __has_include("/usr/local/cuda/include/nvml.h")
#include "/usr/local/cuda/include/nvml.h"
#define HAS_NVML_HEADER 1
#endif
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "hooks/nvidia/nvml.hh"
#include "hooks/nvidia/nvml_types.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"
#include "tests/catch.hh"
#include "tests/fixtures/slowness.hh"

using namespace berth;
using namespace berth::hooks;

namespace {

namespace ours = berth::hooks::nvml;

// The public interface of NVML 11 to 13, on x86_64 and aarch64.
static_assert(sizeof(ours::PciInfo) == 68 && alignof(ours::PciInfo) == 4);
static_assert(offsetof(ours::PciInfo, domain) == 16 && offsetof(ours::PciInfo, bus) == 20 &&
              offsetof(ours::PciInfo, device) == 24 && offsetof(ours::PciInfo, device_id) == 28 &&
              offsetof(ours::PciInfo, subsystem_id) == 32 && offsetof(ours::PciInfo, bus_id) == 36);

#ifdef HAS_NVML_HEADER
static_assert(sizeof(ours::PciInfo) == sizeof(nvmlPciInfo_t) && alignof(ours::PciInfo) == alignof(nvmlPciInfo_t));
static_assert(offsetof(ours::PciInfo, legacy) == offsetof(nvmlPciInfo_t, busIdLegacy));
static_assert(offsetof(ours::PciInfo, domain) == offsetof(nvmlPciInfo_t, domain));
static_assert(offsetof(ours::PciInfo, bus) == offsetof(nvmlPciInfo_t, bus));
static_assert(offsetof(ours::PciInfo, device) == offsetof(nvmlPciInfo_t, device));
static_assert(offsetof(ours::PciInfo, device_id) == offsetof(nvmlPciInfo_t, pciDeviceId));
static_assert(offsetof(ours::PciInfo, subsystem_id) == offsetof(nvmlPciInfo_t, pciSubSystemId));
static_assert(offsetof(ours::PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(ours::Device) == sizeof(nvmlDevice_t) && sizeof(int) == sizeof(nvmlReturn_t) &&
              sizeof(unsigned) == sizeof(nvmlBrandType_t));
static_assert(ours::text_size >= NVML_DEVICE_UUID_V2_BUFFER_SIZE &&
              ours::text_size >= NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
static_assert(int(ours::not_supported) == NVML_ERROR_NOT_SUPPORTED &&
              int(ours::no_permission) == NVML_ERROR_NO_PERMISSION && int(ours::not_found) == NVML_ERROR_NOT_FOUND);
static_assert(int(ours::insufficient_power) == NVML_ERROR_INSUFFICIENT_POWER &&
              int(ours::driver_not_loaded) == NVML_ERROR_DRIVER_NOT_LOADED &&
              int(ours::irq_issue) == NVML_ERROR_IRQ_ISSUE &&
              int(ours::function_not_found) == NVML_ERROR_FUNCTION_NOT_FOUND);
static_assert(int(ours::gpu_is_lost) == NVML_ERROR_GPU_IS_LOST &&
              int(ours::reset_required) == NVML_ERROR_RESET_REQUIRED &&
              int(ours::operating_system) == NVML_ERROR_OPERATING_SYSTEM &&
              int(ours::version_mismatch) == NVML_ERROR_LIB_RM_VERSION_MISMATCH);
static_assert(NVML_BRAND_QUADRO == 1 && NVML_BRAND_TESLA == 2 && NVML_BRAND_NVS == 3 && NVML_BRAND_GRID == 4 &&
              NVML_BRAND_GEFORCE == 5 && NVML_BRAND_TITAN == 6);
// The first releases of NVML 11 have no more.
#if NVML_API_VERSION >= 12
static_assert(NVML_BRAND_QUADRO_RTX == 12 && NVML_BRAND_NVIDIA_RTX == 13 && NVML_BRAND_NVIDIA == 14 &&
              NVML_BRAND_GEFORCE_RTX == 15 && NVML_BRAND_TITAN_RTX == 16);
#endif
#endif

std::filesystem::path beside_tests() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }
std::string stand_in() { return beside_tests() / "fake_nvml.so"; }

/// What is asked of the stand-in that knows this scene.
std::string told(const char* scene, const std::vector<std::string>& buses = {}) {
    ::setenv("BERTH_FAKE_NVML", scene, 1);
    std::string out;
    try {
        out = nvml_text(stand_in(), buses);
    } catch (const Error& error) {
        out = error.what();
    }
    ::unsetenv("BERTH_FAKE_NVML");
    return out;
}

constexpr const char* two_gpus = "gpu 00000000:1B:00.0 0 GPU-a 8.0 2 whole;gpu 00000000:2B:00.0 1 GPU-b 9.0 14 whole;";
const std::string driver_line = "driver 570.86.15 12.8\n", first = "gpu 00000000:1B:00.0 0 GPU-a 8.0 tesla whole\n",
                  second = "gpu 00000000:2B:00.0 1 GPU-b 9.0 nvidia whole\n";

std::string with(const std::string& fault) { return two_gpus + fault; }

}  // namespace

TEST_CASE("nvml: brands are spelled as requirements do, by NVML's numbers", "[hooks][nvidia]") {
    REQUIRE(std::size(ours::brands) == 17);
    CHECK(std::string(ours::brands[2]) == "tesla");
    CHECK(std::string(ours::brands[12]) == "quadrortx");
    CHECK(std::string(ours::brands[16]) == "titanrtx");
}

TEST_CASE("nvml: all GPUs by index, or some by their addresses, which touches no other", "[hooks][nvidia]") {
    CHECK(told(two_gpus) == driver_line + first + second);
    CHECK(told(two_gpus, {"0000:2b:00.0"}) == driver_line + second);
    CHECK(told(two_gpus, {"0000:3b:00.0"}) == driver_line + "error 0000:3b:00.0 6\n");
    // By any other function than those that take an address of its own, the first would make it hang.
    CHECK(told(with("error nvmlDeviceGetHandleByPciBusId_v2 15 0;error nvmlDeviceGetUUID 999 0").c_str(),
               {"0000:2b:00.0"}) == driver_line + second);
}

TEST_CASE("nvml: MIG on, off and not supported", "[hooks][nvidia]") {
    CHECK(told("gpu 00000000:1B:00.0 0 GPU-a 8.0 2 mig;slice 0 7 0 MIG-a;slice 5 9 1 MIG-b;"
               "gpu 00000000:2B:00.0 1 GPU-b 9.0 14 whole;gpu 00000000:3B:00.0 2 GPU-c 7.5 5 unsupported") ==
          driver_line + "gpu 00000000:1B:00.0 0 GPU-a 8.0 tesla mig\nslice 0 7 0 MIG-a\nslice 5 9 1 MIG-b\n" + second +
              "gpu 00000000:3B:00.0 2 GPU-c 7.5 geforce whole\n");
    CHECK(told("gpu 00000000:1B:00.0 0 GPU-a 8.0 2 mig") ==
          driver_line + "gpu 00000000:1B:00.0 0 GPU-a 8.0 tesla mig\n");
}

TEST_CASE("nvml: an error of one GPU leaves the others, and is told of a GPU that was asked for", "[hooks][nvidia]") {
    const std::vector<std::string> both = {"0000:1b:00.0", "0000:2b:00.0"};
    for (int code : {3, 4, 15, 16, 999}) {
        INFO(code);
        std::string line = cat("error 0000:1b:00.0 ", code, "\n");
        CHECK(told(with(cat("error nvmlDeviceGetHandleByPciBusId_v2 ", code, " 0")).c_str(), both) ==
              driver_line + line + second);
        CHECK(told(with(cat("error nvmlDeviceGetPciInfo_v3 ", code, " 0")).c_str(), both) ==
              driver_line + line + second);
        CHECK(told(with(cat("error nvmlDeviceGetHandleByIndex_v2 ", code, " 0")).c_str()) == driver_line + second);
    }
    // With a handle, a GPU may turn out to be lost; what is only not told is told as "-".
    CHECK(told(with("error nvmlDeviceGetUUID 15 0").c_str(), both) ==
          driver_line + "error 00000000:1B:00.0 15\n" + second);
    CHECK(told(with("error nvmlDeviceGetUUID 4 0;error nvmlDeviceGetBrand 3 0;"
                    "error nvmlDeviceGetCudaComputeCapability 3 0;error nvmlDeviceGetMigMode 3 0")
                   .c_str(),
               both) == driver_line + "gpu 00000000:1B:00.0 0 - - - whole\n" + second);
    NvmlReport report = parse_nvml("error 00000000:1B:00.0 15\n");
    REQUIRE(report.gpus.size() == 1);
    CHECK((report.gpus[0].bus == "0000:1b:00.0" && report.gpus[0].error == 15));
    CHECK_THROWS_AS(parse_nvml("error 0000:1b:00.0 lost"), Error);
}

TEST_CASE("nvml: what no program can use is told from what is only not known", "[hooks][nvidia]") {
    CHECK(unusable_gpu(15) == "NVML answers GPU_IS_LOST");
    CHECK(unusable_gpu(16) == "NVML answers RESET_REQUIRED");
    CHECK(unusable_gpu(8) == "NVML answers INSUFFICIENT_POWER");
    CHECK(unusable_gpu(11) == "NVML answers IRQ_ISSUE");
    for (int code : {0, 3, 4, 6, 17, 999}) CHECK(unusable_gpu(code).empty());
}

TEST_CASE("nvml: one that does not start says why", "[hooks][nvidia]") {
    CHECK(told("error nvmlInit_v2 9") ==
          "starting NVML: it answers DRIVER_NOT_LOADED; nvidia-smi on the node tells more");
    CHECK(told("error nvmlInit_v2 18") ==
          "starting NVML: it answers LIB_RM_VERSION_MISMATCH; nvidia-smi on the node tells more");
    CHECK(told("error nvmlInit_v2 12") == "starting NVML: it answers error 12; nvidia-smi on the node tells more");
}

TEST_CASE("nvml: one that hangs is given up in time", "[hooks][nvidia]") {
    const std::string berth = beside_tests().parent_path() / "berth";
    const std::vector<std::string> environment = {
        with("hang nvmlDeviceGetHandleByPciBusId_v2").insert(0, "BERTH_FAKE_NVML=")};
    auto begin = std::chrono::steady_clock::now();
    ProgramAnswer answer = run_program(berth, {"nvml", stand_in(), "0000:1b:00.0"}, "", std::chrono::seconds(1),
                                       &environment);
    CHECK(answer.code == -1);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10) * fixtures::slowness());
    // The same program and scene by index, which nothing makes hang.
    answer = run_program(berth, {"nvml", stand_in()}, "", std::chrono::seconds(20), &environment);
    CHECK(answer.output == driver_line + first + second);
}
