#include "tests/fixtures/rdma_scenes.hh"

#include <sys/resource.h>

#include "tests/catch.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

/// Targets elsewhere than in /dev.
std::string files_of(const plan::ContainerEdits& made) {
    std::set<std::string> out;
    for (const std::string& target : targets_below(made, ""))
        if (!target.starts_with("dev/")) out.insert(target);
    return joined(out);
}

std::string words(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : " ") + text;
    return out;
}

std::vector<std::string> with(std::vector<std::string> job, const std::string& more) {
    job.push_back(more);
    return job;
}

/// What the maker warns of.
std::string told_by_maker(const FakeHost& host, plan::RdmaMode mode, const std::vector<std::string>& job) {
    FakeImage image;
    plan::Site site;
    site.devices.rdma = mode;
    std::vector<std::string> none;
    std::vector<plan::ContainerEdits> before;
    for (const DeviceMaker* maker : device_makers())
        if (maker->vendor == std::string("rdma"))
            return words(maker->make({host, image, site, none, job, before}).warnings);
    return {};
}

}  // namespace

TEST_CASE("rdma: each scene has exactly its devices and files, or its error", "[hooks][rdma]") {
    for (const RdmaScene& scene : rdma_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image;
        plan::ContainerEdits made;
        std::string error = reason_of([&] {
            RdmaRequest request = rdma_request(scene.mode, scene.image, scene.job);
            request.userspace = scene.userspace;
            made = rdma_hook(host, image, request);
        });
        CHECK_THAT(error, Catch::Contains(scene.error.empty() ? "no error" : scene.error));
        CHECK(joined(targets_below(made, "/dev")) == scene.nodes);
        CHECK(files_of(made) == scene.files);
        CHECK(words(made.environment) == scene.environment);
        CHECK((made.warnings.empty() ? "" : made.warnings[0]).find(scene.warning) != std::string::npos);
        CHECK(made.warnings.size() == (scene.warning.empty() ? 0 : 1));
    }
}

TEST_CASE("rdma: a step of several nodes is told once why it has no adapters, and what to do", "[hooks][rdma]") {
    FakeHost host;
    four_adapters(host);
    auto told = [&](plan::RdmaMode mode, std::vector<std::string> job) { return told_by_maker(host, mode, job); };
    const std::vector<std::string> first = {"SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=0"},
                                   second = {"SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=1"},
                                   alone = {"SLURM_STEP_NUM_NODES=1", "SLURM_NODEID=0"};
    using enum plan::RdmaMode;
    CHECK(told(automatic, first) == "");
    CHECK(told(asked, first) ==
          "the container has none of the 4 RDMA adapters of this node, and MPI and NCCL use TCP between nodes: "
          "devices.rdma of berth.conf is \"asked\"; set MELLANOX_VISIBLE_DEVICES=all");
    CHECK_THAT(told(off, first), Catch::EndsWith("devices.rdma of berth.conf is off"));
    for (plan::RdmaMode mode : {asked, off}) CHECK(told(mode, second) + told(mode, alone) == "");
    CHECK(told(asked, with(first, "MELLANOX_VISIBLE_DEVICES=none")) == "");
    CHECK(told(asked, with(first, "MELLANOX_VISIBLE_DEVICES=0")) == "");
    for (unsigned number : {0, 1, 2, 3}) host.deny(cat("/dev/infiniband/uverbs", number));
    CHECK_THAT(told(automatic, first), Catch::Contains("this step may open none of them; give users the nodes"));
}

TEST_CASE("rdma: adapters are in the order of the bus, joined by what sysfs says of them", "[hooks][rdma]") {
    FakeHost host;
    four_adapters(host);
    std::string seen;
    for (const Adapter& one : find_adapters(host))
        seen += cat(one.name, "=", one.verbs, "/", words(one.umads), "/", driver_of(host, one), " ");
    CHECK(seen ==
          "mlx5_0=uverbs2/umad1/mlx5_core mlx5_1=uverbs0//mlx5_core mlx5_2=uverbs1//mlx5_core "
          "mlx5_3=uverbs3//mlx5_core ");
}

TEST_CASE("rdma: the loader finds Amazon's libraries where their node has them", "[hooks][rdma]") {
    FakeHost host;
    efa_adapter(host);
    verbs_libraries(host);
    host.file("/opt/amazon/efa/lib64/libfabric.so.1", "fabric");
    FakeImage image;
    RdmaRequest request = rdma_request(plan::RdmaMode::automatic, {}, {"MELLANOX_VISIBLE_DEVICES=all"});
    request.userspace = true;
    std::string found;
    plan::ContainerEdits made = rdma_hook(host, image, request);
    for (const plan::Edit& edit : made.edits)
        if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action))
            for (const plan::CachedLibrary& library : loader->libraries) found += library.path + " ";
    CHECK(found == "/usr/lib64/libibverbs.so.1 /opt/amazon/efa/lib64/libfabric.so.1 ");
}

TEST_CASE("rdma: a step of several nodes is told once that it may lock too little memory", "[hooks][rdma]") {
    FakeHost host;
    four_adapters(host);
    auto told = [&](std::vector<std::string> job) { return told_by_maker(host, plan::RdmaMode::automatic, job); };
    const std::vector<std::string> first = {"SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=0"},
                                   second = {"SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=1"},
                                   alone = {"SLURM_STEP_NUM_NODES=1", "SLURM_NODEID=0"};
    CHECK(told(first) == "");
    // The limit of the process, as Slurm has carried over none.
    host.lockable = 65536;
    CHECK_THAT(told(first), Catch::StartsWith("a task may lock only 65536 bytes of memory, too little for RDMA"));
    CHECK(told(second) + told(alone) == "");
    CHECK_THAT(told(with(alone, "MELLANOX_VISIBLE_DEVICES=all")), Catch::Contains("65536 bytes"));
    CHECK(told(with(first, "MELLANOX_VISIBLE_DEVICES=none")) == "");
    CHECK(told(with(first, "SLURM_RLIMIT_MEMLOCK=18446744073709551615")) == "");
    host.lockable = UINT64_MAX;
    CHECK_THAT(told(with(first, "SLURM_RLIMIT_MEMLOCK=8388608")), Catch::Contains("only 8388608 bytes"));
}

TEST_CASE("rdma: the limit of this process is what it says", "[hooks][rdma]") {
    struct rlimit limit {};
    REQUIRE(::getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    CHECK(Host().lockable_memory() == limit.rlim_cur);
}

TEST_CASE("rdma: a node with Slingshot alone has adapters, for a step's line and for berth doctor",
          "[hooks][rdma][doctor]") {
    FakeHost host;
    host.node("/dev/cxi0", 240, 0);
    DeviceStatus status = rdma_status(find_adapters(host), plan::RdmaMode::automatic);
    CHECK((status.level == DeviceStatus::Level::ok && status.text == "1 RDMA adapter"));
    CHECK(status.pins_memory == "RDMA adapters");
    const std::vector<std::string> first = {"SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=0"};
    CHECK(told_by_maker(host, plan::RdmaMode::automatic, first) == "");
    host.deny("/dev/cxi0");
    CHECK_THAT(told_by_maker(host, plan::RdmaMode::automatic, first),
               Catch::Contains("none of the 1 RDMA adapter of this node") &&
                   Catch::EndsWith("give users the nodes /dev/cxi* (udev's rules of Slingshot's driver: mode 0666)"));
    status = rdma_status(find_adapters(host), plan::RdmaMode::automatic);
    CHECK(status.level == DeviceStatus::Level::failure);
    CHECK_THAT(status.advice, Catch::StartsWith("give users the nodes /dev/cxi*"));
}
