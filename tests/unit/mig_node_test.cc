// berth-mig against the stand-in for NVML (tests/fixtures/fake_nvml.cc), whose GPU instances outlive processes.
#if __has_include(<nvml.h>)
#include <nvml.h>
#define HAS_NVML_HEADER 1
#elif __has_include("/usr/local/cuda/include/nvml.h")
#include "/usr/local/cuda/include/nvml.h"
#define HAS_NVML_HEADER 1
#endif
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>

#include "runtime/base/child.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/node/change.hh"
#include "runtime/mig/node/nvml_types.hh"
#include "tests/fixtures/failing_calls.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/unit/mig_rules.hh"

using namespace berth;
using namespace berth::mig;
using namespace berth::mig::test;
namespace fs = std::filesystem;

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

fs::path beside_tests() { return fs::read_symlink("/proc/self/exe").parent_path(); }
std::string stand_in() { return beside_tests() / "fake_nvml.so"; }

/// A node: its GPUs, the driver's memory of their instances, and the state folder of berth-mig.
struct Node {
    // Every record is synced, which takes milliseconds on a disk.
    fixtures::TempFolder folder{::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : nullptr};
    std::string state = folder / "state", instances = folder / "instances", log = folder / "log";
    std::string scene;

    explicit Node(const std::vector<std::string>& models) {
        for (size_t i = 0; i < models.size(); ++i) {
            scene += cat("gpu 00000000:", i + 1, "B:00.0 ", i, " GPU-", i, " 9.0 14 mig\n");
            scene += sys::read_file(cat("tests/fixtures/mig/", models[i], ".scene"));
        }
        scene += cat("state ", instances, '\n');
        with("");
    }
    ~Node() { ::unsetenv("BERTH_FAKE_NVML"); }

    void with(const std::string& more) const { ::setenv("BERTH_FAKE_NVML", (scene + more).c_str(), 1); }

    /// As the driver has it after a boot, or after the administrator's work.
    void divide(unsigned gpu, const Layout& layout) const {
        std::string text;
        for (const Instance& one : layout) {
            text += cat("instance ", gpu, ' ', one.profile, ' ', one.place.start, ' ', one.place.size, '\n');
            for (const Compute& part : one.computes)
                text += cat("compute ", gpu, ' ', part.profile, ' ', part.place.start, ' ', part.place.size, '\n');
        }
        Fd file = sys::open_file(instances, O_WRONLY | O_CREAT | O_APPEND, 0644);
        sys::write_all(file.get(), text, instances);
    }
    void reboot() const { fs::remove(instances); }

    Layout now(unsigned gpu) const {
        Driver driver(stand_in());
        return driver.layout(gpu_with(driver, gpu));
    }
};

Manner manner() {
    Manner out;
    out.patience = {};
    return out;
}

/// What becomes of it: "" or the error.
std::string applied(const Node& node, uint32_t job, const std::string& request, const std::vector<unsigned>& minors,
                    const Manner& how = manner()) {
    State state(node.state, {});
    try {
        Driver driver(stand_in());
        apply(driver, state, job, plan::parse_mig(request), minors, how);
    } catch (const LeftChanged& error) {
        return cat("left changed: ", error.what());
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

std::string restored(const Node& node, const Manner& how = manner()) {
    State state(node.state, {});
    try {
        Driver driver(stand_in());
        restore(driver, state, state.records(), how);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

size_t records(const Node& node) { return State(node.state, {}).records().size(); }

Layout filled(std::initializer_list<Instance> all) {
    Layout out = all;
    for (Instance& one : out) one.computes = {compute_of(one.profile == 9 ? 3 : one.profile == 14 ? 2 : 1)};
    return out;
}

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

namespace {

/// The program, as Prolog and Epilog run it.
struct Program {
    Node node;
    fixtures::TempFolder programs;  // /dev/shm may be for no programs
    std::string devices, scontrol, request = "3g.40gb,1g.10gb:3", cuda = "0", output = {};

    explicit Program(const std::vector<std::string>& models) : node(models) {
        fs::create_directory(node.folder / "dev");
        for (size_t i = 0; i < models.size(); ++i) node.folder.create(cat("dev/nvidia", i)).reset();
        devices = cat(node.folder / "dev", "/nvidia[0-", models.size() - 1, ']');
        scontrol = programs / "scontrol";
        answers("gpu:h100:1(IDX:0)");
    }
    void answers(const std::string& value) {
        Fd file = programs.create("scontrol");
        sys::write_all(file.get(), cat("#!/bin/sh\n[ \"$*\" = '--details show job 7' ] && echo '     Nodes=n1 GRES=",
                                       value, "'\n"), "scontrol");
        fs::permissions(scontrol, fs::perms::owner_all);
    }
    std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more = {}) const {
        std::vector<std::string> out{command, "--state", node.state, "--log", node.log, "--library", stand_in()};
        out.insert(out.end(), more.begin(), more.end());
        if (command == "apply")
            for (const std::string& word : {std::string("--devices"), devices, std::string("--scontrol"), scontrol})
                out.push_back(word);
        return out;
    }
    std::vector<std::string> environment(const std::string& gpus = "0") const {
        std::vector<std::string> out{cat("BERTH_FAKE_NVML=", std::getenv("BERTH_FAKE_NVML")), "PATH=/usr/bin:/bin",
                                     "CUDA_VISIBLE_DEVICES=" + cuda};
        if (!gpus.empty()) out.push_back("SLURM_JOB_GPUS=" + gpus);
        if (!request.empty()) out.push_back("SPANK_BERTH_MIG=" + request);
        return out;
    }
    /// The exit code; `output` has what is printed.
    int run(const std::vector<std::string>& words, const std::string& gpus = "0") {
        Fd errors = node.folder.create("errors");
        std::vector<std::string> variables = environment(gpus);
        Child child(beside_tests().parent_path() / "berth-mig", words, -1, errors.get(), &variables);
        output = sys::read_all(child.output(), 1 << 20, "output");
        int code = child.wait();
        output += sys::read_file(node.folder / "errors");
        return code;
    }
    /// Kills it before its `number`th change of anything, its own files and the driver's; false when there are not so
    /// many.
    bool killed_at(int number, const std::vector<std::string>& words) const {
        int left = number;
        pid_t own = 0;  // the first; others are those of scontrol
        fixtures::WatchedEnd end = fixtures::run_watched(
            {beside_tests().parent_path() / "berth-mig", words, node.folder / "errors", environment()},
            fixtures::changing_calls,
            [&](const fixtures::Call& call) {
                if (own == 0) own = call.thread();
                return call.thread() == own && --left == 0 ? fixtures::is_killed : fixtures::goes_on;
            });
        return end.code == 128 + SIGKILL;
    }
    std::string told() const {
        return fs::exists(node.state + "/jobs/7") ? sys::read_file(node.state + "/jobs/7") : "";
    }
};

const Layout before_job = filled({{14, {0, 2}, {}}, {9, {4, 4}, {}}});

}  // namespace

TEST_CASE("berth-mig: apply divides the job's GPUs and says so, restore brings them back", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.node.divide(0, before_job);
    const Layout other = filled({{19, {0, 1}, {}}});
    program.node.divide(1, other);
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(program.output.empty());
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    CHECK(same_layout(program.node.now(0), arrange(*model_of("H100-80GB"), plan::parse_mig(program.request))));
    // Slurm has it of another job.
    CHECK(same_layout(program.node.now(1), other));
    CHECK_THAT(sys::read_file(program.node.log),
               Catch::Contains("job 7: GPU GPU-0 (/dev/nvidia0): create 3g.40gb at ") &&
                   Catch::Contains("job 7: 3g.40gb,1g.10gb:3 on each of 1 GPUs\n"));
    // That of another job changes nothing.
    REQUIRE(program.run(program.words("restore", {"--job", "8"})) == 0);
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    REQUIRE(program.run(program.words("restore", {"--job", "7"})) == 0);
    CHECK(program.told().empty());
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(records(program.node) == 0);
}

TEST_CASE("berth-mig: Slurm's numbers count the files of --devices", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.devices = program.node.folder / "dev/nvidia[1,0]";
    REQUIRE(program.run(program.words("apply", {"--job", "7"}), "0") == 0);
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    CHECK(program.node.now(0).empty());
    CHECK(program.node.now(1).size() == 4);
}

TEST_CASE("berth-mig: what cannot be leaves the GPUs, tells the job why and fails no Prolog", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.node.divide(0, before_job);
    auto refused = [&](const std::string& gpus = "0") {
        REQUIRE(program.run(program.words("apply", {"--job", "7"}), gpus) == 0);
        CHECK(same_layout(program.node.now(0), before_job));
        CHECK(records(program.node) == 0);
        CHECK_THAT(sys::read_file(program.node.log), Catch::EndsWith("job 7: refused: " + program.told()));
        return program.told();
    };
    program.request = "4g.40gb:2";
    CHECK(refused() == "an NVIDIA H100 80GB HBM3 can have 1 MIG devices 4g.40gb, not 2\n");
    program.request = "$(reboot)";
    CHECK_THAT(refused(), Catch::StartsWith("'$(reboot)' is no profile of a MIG device"));
    program.request = "7g.80gb";
    CHECK_THAT(refused("2"), Catch::Contains("write those of all GPUs, in the order of slurmd -G"));
    CHECK_THAT(refused(""), Catch::StartsWith("the job holds no GPU"));
    program.answers("shard:h100:2(IDX:0)");
    CHECK_THAT(refused(), Catch::StartsWith("the job holds a part of a GPU (shard)"));
    program.answers("gpu:1(IDX:0)");
    program.cuda = "MIG-1";
    CHECK_THAT(refused(), Catch::StartsWith("the job holds MIG devices"));
    program.cuda = "0";
    program.node.with("error nvmlInit_v2 9");
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK_THAT(program.told(), Catch::StartsWith("starting NVML: it answers DRIVER_NOT_LOADED"));
    program.node.with("");
    fs::remove(program.scontrol);
    CHECK_THAT(refused(), Catch::Contains("/scontrol"));
    program.answers("gpu:1(IDX:0)");
    fs::remove(program.node.folder / "dev/nvidia1");
    CHECK_THAT(refused(), Catch::Contains("nvidia1 of --devices is not there"));
    // A state folder that cannot be written.
    fs::remove_all(program.node.state);
    program.node.folder.create("state").reset();
    CHECK(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
}

TEST_CASE("berth-mig: a GPU that is left changed fails Prolog and Epilog", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.node.with("error nvmlDeviceCreateGpuInstanceWithPlacement 999");
    CHECK(program.run(program.words("apply", {"--job", "7"})) == 1);
    CHECK_THAT(program.output, Catch::Contains("; and bringing back what the GPU was: "));
    CHECK(program.run(program.words("restore", {"--job", "7"})) == 1);
    CHECK(program.told().empty());
    program.node.with("");
    State(program.node.state, {}).tell(6, "of a job from before a reboot");
    CHECK(program.run(program.words("restore", {"--all", "--dry-run"})) == 0);
    CHECK_THAT(program.output, Catch::Contains("job -: GPU GPU-0 (/dev/nvidia0): create 2g.20gb at 0:2"));
    CHECK(records(program.node) == 1);
    CHECK(program.run(program.words("restore", {"--all"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(State::is_empty(program.node.state));
}

TEST_CASE("berth-mig: a driver that hangs is given up, and fails Prolog and Epilog", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.node.with("hang nvmlDeviceCreateGpuInstanceWithPlacement");
    CHECK(program.run(program.words("apply", {"--job", "7", "--timeout", "1"})) == 128 + SIGALRM);
    CHECK(records(program.node) == 1);
    program.node.with("hang nvmlInit_v2");
    CHECK(program.run(program.words("restore", {"--job", "7", "--timeout", "1"})) == 128 + SIGALRM);
    program.node.with("");
    CHECK(program.run(program.words("restore", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
}

TEST_CASE("berth-mig: a job that asks for nothing finds its GPUs as they were before an earlier one", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.request.clear();
    // Not even Slurm is asked.
    fs::remove(program.scontrol);
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK_FALSE(fs::exists(program.node.state));
    REQUIRE(applied(program.node, 6, "7g.80gb", {0}).empty());
    program.answers("gpu:1(IDX:0)");
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(records(program.node) == 0);
    CHECK(program.told().empty());
}

TEST_CASE("berth-mig: killed before any change of apply or restore, rebooted or not, the first layout comes back",
          "[mig]") {
    for (bool reboot : {false, true})
        for (const char* command : {"apply", "restore"}) {
            int kills = 0;
            for (int number = 1;; ++number) {
                INFO(command << ' ' << number << (reboot ? " and a reboot" : ""));
                Program program({"H100-80GB"});
                program.request = "3g.40gb,1g.10gb";
                program.node.divide(0, before_job);
                if (std::string(command) == "restore")
                    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
                bool killed = program.killed_at(number, program.words(command, {"--job", "7"}));
                // All instances are gone then. Before the first change nobody has written down what they were.
                if (reboot) {
                    program.node.reboot();
                    if (records(program.node) == 0) program.node.divide(0, before_job);
                }
                REQUIRE(program.run(program.words("restore", {"--job", "7"})) == 0);
                REQUIRE(same_layout(program.node.now(0), before_job));
                REQUIRE(records(program.node) == 0);
                REQUIRE(program.told().empty());
                if (!killed) break;
                ++kills;
            }
            CHECK(kills > 20);
        }
}

TEST_CASE("berth-mig: plan needs no GPU", "[mig]") {
    Program program({"A30"});
    CHECK(program.run({"plan", "--model", "H100-80GB", "3g.40gb,1g.10gb"}) == 0);
    CHECK(program.output == "create 3g.40gb at 0:4\ncreate compute instance of 3g.40gb at 0:4\ncreate 1g.10gb at 4:1\n"
                            "create compute instance of 1g.10gb at 4:1\n");
    CHECK(program.run({"plan", "--model", "A30", "1g.10gb"}) == 1);
    CHECK_THAT(program.output, Catch::StartsWith("berth-mig: an A30 has no MIG profile 1g.10gb; it has 1g.6gb"));
    CHECK(program.run({"plan", "--model", "V100", "1g.10gb"}) == 1);
    CHECK_THAT(program.output, Catch::Contains("is no GPU of the table; it has A100-40GB"));
}
