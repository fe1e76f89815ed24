// What berth-mig does to GPUs, against the stand-in for NVML.
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAS_NVML_HEADER 1
#elif __has_include("/usr/local/cuda/include/nvml.h")
#include "/usr/local/cuda/include/nvml.h"
#define HAS_NVML_HEADER 1
#endif

#include <cstddef>

#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/node/nvml_types.hh"
#include "tests/unit/mig_node.hh"
#include "tests/unit/mig_rules.hh"

using namespace berth;
using namespace berth::mig;
using namespace berth::mig::test;

namespace {

namespace ours = berth::mig::nvml;

// The public interface of NVML 11 to 13, on x86_64 and aarch64.
static_assert(sizeof(ours::Place) == 8 && sizeof(ours::GpuProfile) == 48 && offsetof(ours::GpuProfile, memory) == 40);
static_assert(sizeof(ours::NamedGpuProfile) == 152 && offsetof(ours::NamedGpuProfile, memory) == 48 &&
              offsetof(ours::NamedGpuProfile, name) == 56 && ours::named_gpu_profile_version == 0x2000098);
static_assert(sizeof(ours::ComputeProfile) == 36 && sizeof(ours::GpuInstanceInfo) == 24 &&
              sizeof(ours::ComputeInstanceInfo) == 32);

#ifdef HAS_NVML_HEADER
static_assert(sizeof(ours::Place) == sizeof(nvmlGpuInstancePlacement_t) &&
              sizeof(ours::Place) == sizeof(nvmlComputeInstancePlacement_t));
static_assert(sizeof(ours::GpuProfile) == sizeof(nvmlGpuInstanceProfileInfo_t) &&
              offsetof(ours::GpuProfile, slices) == offsetof(nvmlGpuInstanceProfileInfo_t, sliceCount) &&
              offsetof(ours::GpuProfile, instances) == offsetof(nvmlGpuInstanceProfileInfo_t, instanceCount) &&
              offsetof(ours::GpuProfile, decoders) == offsetof(nvmlGpuInstanceProfileInfo_t, decoderCount) &&
              offsetof(ours::GpuProfile, jpeg) == offsetof(nvmlGpuInstanceProfileInfo_t, jpegCount) &&
              offsetof(ours::GpuProfile, optical_flow) == offsetof(nvmlGpuInstanceProfileInfo_t, ofaCount));
static_assert(sizeof(ours::ComputeProfile) == sizeof(nvmlComputeInstanceProfileInfo_t) &&
              offsetof(ours::ComputeProfile, slices) == offsetof(nvmlComputeInstanceProfileInfo_t, sliceCount));
static_assert(sizeof(ours::GpuInstanceInfo) == sizeof(nvmlGpuInstanceInfo_t) &&
              offsetof(ours::GpuInstanceInfo, profile) == offsetof(nvmlGpuInstanceInfo_t, profileId) &&
              offsetof(ours::GpuInstanceInfo, place) == offsetof(nvmlGpuInstanceInfo_t, placement));
static_assert(sizeof(ours::ComputeInstanceInfo) == sizeof(nvmlComputeInstanceInfo_t) &&
              offsetof(ours::ComputeInstanceInfo, profile) == offsetof(nvmlComputeInstanceInfo_t, profileId) &&
              offsetof(ours::ComputeInstanceInfo, place) == offsetof(nvmlComputeInstanceInfo_t, placement));
static_assert(int(ours::invalid_argument) == NVML_ERROR_INVALID_ARGUMENT &&
              int(ours::not_supported) == NVML_ERROR_NOT_SUPPORTED && int(ours::in_use) == NVML_ERROR_IN_USE &&
              int(ours::function_not_found) == NVML_ERROR_FUNCTION_NOT_FOUND &&
              int(ours::insufficient_resources) == NVML_ERROR_INSUFFICIENT_RESOURCES);
static_assert(ours::gpu_profiles >= NVML_GPU_INSTANCE_PROFILE_COUNT &&
              ours::compute_profiles >= NVML_COMPUTE_INSTANCE_PROFILE_COUNT);
#if NVML_API_VERSION >= 12
static_assert(sizeof(ours::NamedGpuProfile) == sizeof(nvmlGpuInstanceProfileInfo_v2_t) &&
              offsetof(ours::NamedGpuProfile, name) == offsetof(nvmlGpuInstanceProfileInfo_v2_t, name) &&
              ours::named_gpu_profile_version == nvmlGpuInstanceProfileInfo_v2);
#endif
#endif

}  // namespace

TEST_CASE("berth-mig: a driver tells the profiles of each GPU, an old one with the names of the table", "[mig]") {
    for (const Model& model : known_models()) {
        INFO(model.name);
        Node node({model.name});
        for (const char* older : {"", "without nvmlDeviceGetGpuInstanceProfileInfoV\n"}) {
            node.with(older);
            Driver driver(stand_in());
            std::vector<Profile> told = driver.model(gpu_with(driver, 0)).profiles;
            REQUIRE(told.size() == model.profiles.size());
            for (const Profile& one : told) CHECK(one == *model.numbered(one.id));
        }
    }
}

TEST_CASE("berth-mig: a profile that a driver does not know hides no other", "[mig]") {
    for (int code : {2, 3}) {
        Node node({"H100-80GB"});
        node.with(cat("error nvmlDeviceGetGpuInstanceProfileInfoV ", code, " 0 3"));
        Driver driver(stand_in());
        Model model = driver.model(gpu_with(driver, 0));
        CHECK(model.profiles.size() == 6);
        CHECK(model.named("3g.40gb") == nullptr);
        CHECK(model.named("1g.20gb") != nullptr);
    }
}

TEST_CASE("berth-mig: ten thousand random requests reach their layout and lead back, or change nothing", "[mig]") {
    Random random(2026);
    int reached = 0, refused = 0;
    for (const Model& model : known_models()) {
        Rules rules(model);
        Node node({model.name});
        for (size_t i = 0; i < random_layouts / known_models().size(); ++i) {
            node.reboot();
            node.divide(0, rules.any_layout(random));
            const Layout first = node.now(0);
            plan::MigRequest request;
            std::vector<const Profile*> wanted;
            if (below(random, 2) == 0) {
                request = request_of(rules.any_layout(random), model);
            } else {
                for (unsigned left = 1 + below(random, 4); left > 0; --left)
                    request.push_back({model.profiles[below(random, model.profiles.size())].name, 1});
                request = plan::parse_mig(plan::mig_text(request));
            }
            if (request.empty()) continue;
            for (const plan::MigItem& item : request)
                wanted.insert(wanted.end(), item.count, model.named(item.profile));
            INFO(model.name << ' ' << plan::mig_text(request));
            std::string error = applied(node, 7, plan::mig_text(request), {0});
            if (!rules.possible(wanted)) {
                ++refused;
                REQUIRE_FALSE(error.empty());
                REQUIRE(same_layout(node.now(0), first));
                REQUIRE(records(node) == 0);
                continue;
            }
            ++reached;
            REQUIRE(error.empty());
            Layout now = node.now(0);
            std::map<std::string, unsigned> made, asked;
            for (const Instance& one : now) {
                ++made[model.numbered(one.profile)->name];
                REQUIRE(one.computes == std::vector<Compute>{compute_of(model.numbered(one.profile)->slices)});
            }
            for (const plan::MigItem& item : request) asked[item.profile] = item.count;
            REQUIRE(made == asked);
            REQUIRE(restored(node).empty());
            REQUIRE(same_layout(node.now(0), first));
            REQUIRE(records(node) == 0);
        }
    }
    CHECK(reached > random_layouts / 4);
    CHECK(refused > random_layouts / 20);
}

TEST_CASE("berth-mig: any call of the driver fails, at any time, and the GPUs are what they were", "[mig]") {
    const Layout one = filled({{14, {0, 2}, {}}, {19, {6, 1}, {}}}), other = filled({{9, {4, 4}, {}}});
    int failed = 0;
    for (const char* function :
         {"nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo", "nvmlDeviceCreateGpuInstanceWithPlacement",
          "nvmlGpuInstanceDestroy", "nvmlGpuInstanceGetComputeInstanceProfileInfo", "nvmlComputeInstanceGetInfo_v2",
          "nvmlGpuInstanceGetComputeInstances", "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
          "nvmlComputeInstanceDestroy", "nvmlDeviceGetGpuInstancePossiblePlacements_v2", "nvmlDeviceGetMigMode",
          "nvmlDeviceGetGpuInstanceProfileInfoV"})
        for (int call = 1;; ++call) {
            INFO(function << ' ' << call);
            Node node({"H100-80GB", "H100-80GB"});
            node.divide(0, one);
            node.divide(1, other);
            node.with(cat("error ", function, " 999 -1 ", call));
            std::string error = applied(node, 7, "3g.40gb,1g.10gb:3", {0, 1});
            node.with("");
            if (error.empty()) {
                REQUIRE(call > 1);
                REQUIRE(records(node) == 2);
                break;
            }
            ++failed;
            REQUIRE_THAT(error, Catch::Contains("NVML answers error 999") && !Catch::Contains("left changed"));
            REQUIRE(same_layout(node.now(0), one));
            REQUIRE(same_layout(node.now(1), other));
            REQUIRE(records(node) == 0);
        }
    CHECK(failed > 100);
}

TEST_CASE("berth-mig: a GPU that cannot be brought back keeps its record, and is another kind of error", "[mig]") {
    Node node({"H100-80GB"});
    const Layout first = filled({{14, {0, 2}, {}}});
    node.divide(0, first);
    node.with("error nvmlDeviceCreateGpuInstanceWithPlacement 999");
    CHECK_THAT(
        applied(node, 7, "1g.10gb:7", {0}),
        Catch::StartsWith("left changed: create 1g.10gb at 0:1 on GPU GPU-0 (/dev/nvidia0): NVML answers error 999"));
    CHECK(records(node) == 1);
    CHECK_FALSE(restored(node).empty());
    CHECK(records(node) == 1);
    node.with("");
    CHECK(restored(node).empty());
    CHECK(same_layout(node.now(0), first));
}

TEST_CASE("berth-mig: a GPU without MIG mode, or about to leave it, is refused and never reset", "[mig]") {
    Node node({"H100-80GB"});
    std::string whole = node.scene;
    whole.replace(whole.find(" mig\n"), 5, " whole\n");
    ::setenv("BERTH_FAKE_NVML", whole.c_str(), 1);
    CHECK(
        applied(node, 7, "1g.10gb", {0}) ==
        "GPU GPU-0 (/dev/nvidia0) is not in MIG mode, and no GPU is reset for a job; the administrator turns it on by "
        "nvidia-smi -i GPU-0 -mig 1");
    whole.replace(whole.find(" whole\n"), 7, " unsupported\n");
    ::setenv("BERTH_FAKE_NVML", whole.c_str(), 1);
    CHECK(applied(node, 7, "1g.10gb", {0}) == "GPU GPU-0 (/dev/nvidia0) has no MIG mode");
    node.with("");
    CHECK_THAT(applied(node, 7, "1g.10gb", {3}), Catch::Contains("NVML has no GPU that is /dev/nvidia3"));
    CHECK(records(node) == 0);
}

TEST_CASE("berth-mig: what an earlier job left is brought back to what was before that one", "[mig]") {
    Node node({"H100-80GB"});
    const Layout first = filled({{9, {0, 4}, {}}});
    node.divide(0, first);
    CHECK(applied(node, 7, "1g.10gb:2", {0}).empty());
    // Its Epilog was killed.
    CHECK(applied(node, 8, "2g.20gb", {0}).empty());
    State state(node.state, {});
    REQUIRE(state.records() == std::vector<Record>{{"GPU-0", 8, first}});
    Driver driver(stand_in());
    restore(driver, state, state.records(), manner());
    CHECK(same_layout(node.now(0), first));
}

TEST_CASE("berth-mig: what a process uses is not destroyed", "[mig]") {
    Node node({"H100-80GB"});
    const Layout first = filled({{14, {0, 2}, {}}, {19, {6, 1}, {}}});
    node.divide(0, first);
    node.with("busy 19 6");
    std::string error = applied(node, 7, "7g.80gb", {0});
    CHECK(error ==
          "destroy compute instance of 1g.10gb at 6:1 on GPU GPU-0 (/dev/nvidia0): NVML answers IN_USE; end the "
          "processes that nvidia-smi shows on it");
    CHECK(same_layout(node.now(0), first));
    CHECK(records(node) == 0);
}

TEST_CASE("berth-mig: while GPUs are in use others have their turn, and several take no longer than one", "[mig]") {
    Node node({"H100-80GB", "H100-80GB"});
    REQUIRE(applied(node, 7, "1g.10gb:7", {0, 1}).empty());
    std::string busy = node.scene + "busy 19 6\n";
    busy.insert(busy.find("gpu 00000000:2B"), "busy 19 6\n");
    ::setenv("BERTH_FAKE_NVML", busy.c_str(), 1);
    State state(node.state, {});
    int turns = 0;
    Manner how = manner();
    how.patience = std::chrono::milliseconds(100);
    how.pause = [&] {
        state.without_lock([&] {
            // Another job's berth-mig.
            State other(node.state, {});
            ++turns;
            std::this_thread::sleep_for(how.patience);
        });
    };
    Driver driver(stand_in());
    CHECK_THROWS_WITH(restore(driver, state, state.records(), how), Catch::Contains("IN_USE"));
    // None where the machine was too busy.
    CHECK(turns <= 1);
    CHECK(state.has_lock());
    CHECK(state.records().size() == 2);
}

TEST_CASE("berth-mig: a driver that places compute instances itself gets the same", "[mig]") {
    Node node({"H100-80GB"});
    node.with("without nvmlGpuInstanceCreateComputeInstanceWithPlacement");
    CHECK(applied(node, 7, "3g.40gb:2", {0}).empty());
    CHECK(same_layout(node.now(0), filled({{9, {0, 4}, {}}, {9, {4, 4}, {}}})));
}

TEST_CASE("berth-mig: a dry run tells the steps and does none", "[mig]") {
    Node node({"H100-80GB"});
    const Layout first = filled({{14, {0, 2}, {}}});
    node.divide(0, first);
    std::vector<std::string> told;
    Manner how = manner();
    how.dry_run = true;
    how.told = [&](const Gpu& gpu, const std::string& step) { told.push_back(gpu.uuid + ": " + step); };
    CHECK(applied(node, 7, "3g.40gb", {0}, how).empty());
    CHECK(told == std::vector<std::string>{"GPU-0: destroy compute instance of 2g.20gb at 0:2",
                                           "GPU-0: destroy 2g.20gb at 0:2", "GPU-0: create 3g.40gb at 0:4",
                                           "GPU-0: create compute instance of 3g.40gb at 0:4"});
    CHECK(same_layout(node.now(0), first));
    CHECK(records(node) == 0);
}
