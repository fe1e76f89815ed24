#include "hooks/nvidia/request.hh"
#include "hooks/nvidia/requirements.hh"
#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::hooks;

namespace {
using Names = std::vector<std::string>;
using Set = std::set<Capability>;
const Set usual = {Capability::utility, Capability::compute};
}  // namespace

TEST_CASE("nvidia request: which devices", "[hooks][nvidia]") {
    CHECK_FALSE(nvidia_request({}, {}).wanted);
    CHECK_FALSE(nvidia_request({"NVIDIA_VISIBLE_DEVICES=void"}, {}).wanted);
    CHECK_FALSE(nvidia_request({"NVIDIA_VISIBLE_DEVICES="}, {}).wanted);
    CHECK_FALSE(nvidia_request({"NVIDIA_VISIBLE_DEVICES=all"}, {"NVIDIA_VISIBLE_DEVICES=void"}).wanted);
    NvidiaRequest none = nvidia_request({"NVIDIA_VISIBLE_DEVICES=none"}, {});
    CHECK((none.wanted && !none.all && none.devices.empty()));
    CHECK(nvidia_request({"NVIDIA_VISIBLE_DEVICES=ALL"}, {}).all);
    CHECK(nvidia_request({"NVIDIA_VISIBLE_DEVICES=all"}, {"NVIDIA_VISIBLE_DEVICES=1, GPU-a,0:3"}).devices ==
          Names{"1", "GPU-a", "0:3"});
}

TEST_CASE("nvidia request: images from before NVIDIA_REQUIRE_CUDA", "[hooks][nvidia]") {
    NvidiaRequest old = nvidia_request({"CUDA_VERSION=9.0.176"}, {});
    CHECK(old.all);
    CHECK(old.capabilities.size() == 7);
    REQUIRE(old.requirements.size() == 1);
    CHECK(old.requirements[0].text == "cuda>=9.0");
    CHECK_FALSE(nvidia_request({"CUDA_VERSION=12.4.1", "NVIDIA_REQUIRE_CUDA=cuda>=12.4"}, {}).wanted);
    CHECK_FALSE(nvidia_request({"CUDA_VERSION=9.0.176"}, {"NVIDIA_VISIBLE_DEVICES=void"}).wanted);
}

TEST_CASE("nvidia request: capabilities", "[hooks][nvidia]") {
    auto of = [](const std::string& text) {
        return nvidia_request({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=" + text}, {}).capabilities;
    };
    CHECK(nvidia_request({"NVIDIA_VISIBLE_DEVICES=all"}, {}).capabilities == usual);
    CHECK(of("") == usual);
    CHECK(of("all").size() == 7);
    CHECK(of("video") == Set{Capability::video, Capability::compute});
    CHECK(of("graphics, utility") == Set{Capability::graphics, Capability::utility});
    CHECK_THROWS_WITH(of("compute,magic"), Catch::Contains("'magic' is none of compute"));
}

TEST_CASE("nvidia request: channels, switches, and what only a job may say", "[hooks][nvidia]") {
    Names image = {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_GDRCOPY=enabled", "NVIDIA_IMEX_CHANNELS=0,7",
                   "CUDA_MPS_PIPE_DIRECTORY=/etc", "CUDA_VISIBLE_DEVICES=3"};
    NvidiaRequest request = nvidia_request(image, {"SLURM_JOB_ID=7"});
    CHECK(request.imex_channels->numbers == std::set<unsigned>{0, 7});
    CHECK((request.gdrcopy && !request.gds && request.in_slurm));
    CHECK((request.mps_directory.empty() && request.grant.says == SlurmGrant::Says::nothing));
    CHECK(nvidia_request(image, {"NVIDIA_IMEX_CHANNELS=all"}).imex_channels->all);
    CHECK_THROWS_WITH(nvidia_request(image, {"NVIDIA_IMEX_CHANNELS=1048576"}),
                      Catch::Contains("'1048576' is no channel (0 to 1048575)"));
    CHECK(nvidia_request(image, {"NVIDIA_MIG_CONFIG_DEVICES=all"}).warnings.size() == 1);
    CHECK(
        nvidia_request({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=99"}, {"NVIDIA_DISABLE_REQUIRE=true"})
            .requirements.empty());
    CHECK(
        nvidia_request({"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=cuda>=99"}, {"NVIDIA_REQUIRE_CUDA=cuda>=1"})
            .requirements[0]
            .text == "cuda>=1");
}

TEST_CASE("requirements: alternatives, conditions, comparisons", "[hooks][nvidia]") {
    GpuProperties h100{"12.8", "570.86.15", "9.0", "Tesla"};
    auto of = [&](const std::string& text) { return judge({"CUDA", text}, h100); };
    CHECK(of("cuda>=12.8") == Verdict::fulfilled);
    CHECK(of("cuda>=12.8.0") == Verdict::fulfilled);
    CHECK(of("cuda>12.8.0") == Verdict::refused);
    CHECK(of("cuda>=12.10") == Verdict::refused);
    CHECK(of("cuda>=99 brand=tesla,driver>=470,driver<571") == Verdict::fulfilled);
    CHECK(of("cuda>=99 brand=tesla,driver<570 brand!=Tesla") == Verdict::refused);
    CHECK(of("arch>=8.0,cuda<13") == Verdict::fulfilled);
    CHECK(of("") == Verdict::fulfilled);
    h100.brand.clear();
    CHECK(of("cuda>=99 brand=tesla,driver>=470") == Verdict::unknown);
    CHECK(of("cuda>=12 brand=tesla") == Verdict::fulfilled);
    CHECK(of("brand=tesla,cuda>=99") == Verdict::refused);
    for (const char* wrong : {"cuda", ">=12", "cuda>=", "cuda>=12.x", "cuda=>12", "brand>tesla", "colour=red"}) {
        INFO(wrong);
        CHECK_THROWS_WITH(of(wrong), Catch::StartsWith("NVIDIA_REQUIRE_CUDA: "));
    }
}
