// What `berth devices` and `berth doctor` say of a node's devices.
#include "hooks/list.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "tests/catch.hh"
#include "tests/fixtures/amd_scenes.hh"
#include "tests/fixtures/container_edits.hh"
#include "tests/fixtures/rdma_scenes.hh"
#include "tests/fixtures/step_scenes.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

using Job = std::vector<std::string>;
using Level = DeviceStatus::Level;

DeviceList list_of(const std::string& vendor, const Host& host, const Job& job, const plan::Site& site = {}) {
    for (const FamilyList& family : list_devices(host, site, job))
        if (family.vendor == vendor) return family.list;
    throw Error("no family " + vendor);
}

/// A line for each device: "nvidia2 +" is given, "nvidia3 o- WHY" is open and not given, "nvidia3 !- WHY" is unusable.
std::string lines_of(const DeviceList& list) {
    std::string out;
    for (const ListedDevice& one : list.devices)
        out += cat(one.name, ' ', one.usable ? "" : "!", one.open && !one.given ? "o" : "", one.given ? "+" : "- ",
                   one.why, '\n');
    return out + (list.error.empty() ? "" : "error: " + list.error + "\n");
}

std::set<std::string> given_nodes(const DeviceList& list, const std::string& start) {
    std::set<std::string> out;
    for (const ListedDevice& one : list.devices)
        for (const std::string& node : one.nodes)
            if (one.given) out.insert(node.substr(start.size()));
    return out;
}

/// Those of GPUs and MIG devices.
std::string planned_nodes(const std::string& nodes) {
    std::set<std::string> out;
    for (const std::string& node : split(nodes, ' '))
        if (node.starts_with("nvidia-caps/") || (node.starts_with("nvidia") && node.size() > 6 && node[6] <= '9' &&
                                                 node[6] >= '0'))
            out.insert(node);
    return joined(out);
}

void answer_by_nvml(FakeHost& host) {
    host.answers = [&host] {
        return host.exists("/nvml-trouble") ? std::nullopt : std::optional(nvml_lines(nvml_of(host)));
    };
}

Job with_one(Job job, const std::string& more) {
    job.push_back(more);
    return job;
}

const Job third_and_fourth = {"SLURM_JOB_ID=1", "SLURM_JOB_GPUS=0,1,2,3,4,5,6,7", "SLURM_STEP_GPUS=2,3",
                              "CUDA_VISIBLE_DEVICES=0,1"};

}  // namespace

TEST_CASE("list: what is given is what a plan has, in each scene of GPUs, steps and adapters", "[hooks][list]") {
    auto check = [](const std::string& name, const std::function<void(FakeHost&)>& make, const Job& job,
                    const std::string& nodes, bool refused) {
        INFO(name);
        FakeHost host;
        make(host);
        answer_by_nvml(host);
        DeviceList list = list_of("nvidia", host, job);
        CHECK(joined(given_nodes(list, "/dev/")) == (refused ? "" : planned_nodes(nodes)));
        for (const ListedDevice& one : list.devices) CHECK(one.given == one.why.empty());
    };
    for (const GpuScene& scene : gpu_scenes())
        if (scene.error.empty() && scene.image == all_gpus)
            check(scene.name, scene.host, scene.job, scene.nodes, false);
    for (const StepScene& scene : step_scenes())
        check(scene.name, scene.host, scene.job, scene.nodes, !scene.error.empty());
    for (const RdmaScene& scene : rdma_scenes()) {
        if (!scene.image.empty()) continue;
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        plan::Site site;
        site.devices.rdma = scene.mode;
        DeviceList list = list_of("rdma", host, scene.job, site);
        CHECK(list.error.find(scene.error) != std::string::npos);
        std::set<std::string> planned;
        for (const std::string& node : split(scene.error.empty() ? scene.nodes : "", ' '))
            if (node.starts_with("infiniband/u") || node.starts_with("cxi")) planned.insert(node);
        CHECK(joined(given_nodes(list, "/dev/")) == joined(planned));
    }
}

TEST_CASE("list: each GPU that a container does not get has its reason", "[hooks][list]") {
    FakeHost host;
    host.driver("570.86.15", "570.86.15");
    for (unsigned i = 0; i < 4; ++i) host.gpu(i, cat("0000:", i, "b:00.0"), gpu_uuid(i));
    const std::string ungranted = " o- Slurm has not granted it: SLURM_STEP_GPUS=2,3\n";
    CHECK(lines_of(list_of("nvidia", host, third_and_fourth)) ==
          cat("nvidia0", ungranted, "nvidia1", ungranted, "nvidia2 +\nnvidia3 +\n"));
    CHECK(lines_of(list_of("nvidia", host, with_one(third_and_fourth, "NVIDIA_VISIBLE_DEVICES=1"))) ==
          cat("nvidia0", ungranted, "nvidia1", ungranted,
              "nvidia2 o- NVIDIA_VISIBLE_DEVICES does not name it\nnvidia3 +\n"));
    CHECK(lines_of(list_of("nvidia", host, with_one(third_and_fourth, "NVIDIA_VISIBLE_DEVICES=7"))) ==
          cat("nvidia0", ungranted, "nvidia1", ungranted,
              "nvidia2 o- no container starts\nnvidia3 o- no container starts\nerror: NVIDIA_VISIBLE_DEVICES: 7 is not "
              "allocated: this step has 2 GPUs, counted from 0\n"));
    CHECK_THAT(lines_of(list_of("nvidia", host, {"SLURM_JOB_ID=1", "SLURM_JOB_GPUS=0"})),
               Catch::StartsWith("nvidia0 o- Slurm has granted no GPU to this step\n"));
    CHECK_THAT(lines_of(list_of("nvidia", host, {"NVIDIA_VISIBLE_DEVICES=void"})),
               Catch::StartsWith("nvidia0 o- NVIDIA_VISIBLE_DEVICES=void asks for none\n"));
    plan::Site site;
    site.devices.nvidia = plan::NvidiaMode::off;
    CHECK_THAT(lines_of(list_of("nvidia", host, {}, site)),
               Catch::StartsWith("nvidia0 o- devices.nvidia of berth.conf is \"off\"\n"));
    site = {};
    site.devices.disabled = {"nvidia"};
    CHECK_THAT(lines_of(list_of("nvidia", host, {}, site)),
               Catch::StartsWith("nvidia0 o- devices.disabled of berth.conf has \"nvidia\"\n"));
    host.deny("/dev/nvidia0");
    host.remove("/dev/nvidia1");
    CHECK(lines_of(list_of("nvidia", host, {"NVIDIA_VISIBLE_DEVICES=0000:2b:00.0"})) ==
          "nvidia0 - this process may not open /dev/nvidia0, by its device cgroup or the node's mode\n"
          "nvidia1 !- /dev/nvidia1 does not exist; run nvidia-modprobe on the node (as root)\n"
          "nvidia2 +\nnvidia3 o- NVIDIA_VISIBLE_DEVICES does not name it\n");
}

TEST_CASE("list: MIG devices with their UUIDs, and GPUs that no program can use", "[hooks][list]") {
    FakeHost slices;
    one_slice(slices);
    answer_by_nvml(slices);
    DeviceList list = list_of("nvidia", slices, {});
    CHECK_THAT(lines_of(list), Catch::StartsWith("nvidia0 +\nnvidia0/gi7/ci0 - this process may not open "
                                                 "/dev/nvidia-caps/nvidia-cap66, by its device cgroup") &&
                                   Catch::Contains("\nnvidia0/gi8/ci0 +\n"));
    CHECK(list.devices[2].id == mig_uuid(0, 8));
    CHECK(joined({list.devices[2].nodes.begin(), list.devices[2].nodes.end()}) ==
          "/dev/nvidia-caps/nvidia-cap75 /dev/nvidia-caps/nvidia-cap76 /dev/nvidia0");
    CHECK(list.about == "driver 570.86.15, CUDA up to 12.8");
    for (const char* cap : {"75", "76"}) slices.deny(std::string("/dev/nvidia-caps/nvidia-cap") + cap);
    CHECK_THAT(lines_of(list_of("nvidia", slices, {})),
               Catch::StartsWith("nvidia0 o- only its MIG devices can be used, and this process may open none of them\n"
                                 "nvidia0/gi7/ci0 - this process may not open /dev/nvidia-caps/nvidia-cap66, by") &&
                   Catch::Contains("\nnvidia1 - this process may not open /dev/nvidia1, by"));
    slices.file("/nvml-trouble", "it gave no answer within 20 s");
    CHECK(list_of("nvidia", slices, {}).notes ==
          std::vector<std::string>{"NVML could not be asked: it gave no answer within 20 s"});
    auto of = [](MakeHost make) {
        FakeHost host;
        make(host);
        return lines_of(list_of("nvidia", host, {}));
    };
    CHECK_THAT(of(one_silent), Catch::EndsWith("nvidia7 +\n0000:2b:00.0 !- the driver cannot reach it; it may have "
                                               "fallen off the bus\n"));
    CHECK_THAT(of(one_in_vfio), Catch::EndsWith("nvidia7 +\nnvidia2 !o- the NVIDIA driver has no such GPU: it has "
                                                "fallen off the bus, or another driver has it\n"));
    CHECK_THAT(of(one_off_the_bus), Catch::Contains("\nnvidia2 !o- it has fallen off the bus (its PCI"));
    CHECK(of([](FakeHost&) {}) == "");
}

TEST_CASE("list: adapters, and why a container has none of them", "[hooks][list]") {
    FakeHost host;
    four_adapters(host);
    host.node("/dev/cxi0", 240, 0);
    host.deny("/dev/infiniband/uverbs0");
    auto of = [&](const Job& job, plan::RdmaMode mode = plan::RdmaMode::automatic) {
        plan::Site site;
        site.devices.rdma = mode;
        return lines_of(list_of("rdma", host, job, site));
    };
    const std::string denied =
        "mlx5_1 - this process may not open /dev/infiniband/uverbs0; udev's rules of rdma-core make it mode 0666\n";
    CHECK(of({}) == cat("mlx5_0 +\n", denied, "mlx5_2 +\nmlx5_3 +\ncxi0 +\n"));
    CHECK_THAT(of({"MELLANOX_VISIBLE_DEVICES=mlx5_3"}),
               Catch::StartsWith(cat("mlx5_0 o- MELLANOX_VISIBLE_DEVICES does not name it\n", denied)) &&
                   Catch::Contains("\nmlx5_3 +\n"));
    CHECK_THAT(of({"MELLANOX_VISIBLE_DEVICES=none"}),
               Catch::StartsWith("mlx5_0 o- MELLANOX_VISIBLE_DEVICES asks for none\n"));
    CHECK_THAT(of({"MELLANOX_VISIBLE_DEVICES=mlx5_9"}), Catch::StartsWith("mlx5_0 o- no container starts\n") &&
                                                            Catch::Contains("error: MELLANOX_VISIBLE_DEVICES: mlx5_9"));
    CHECK_THAT(of({}, plan::RdmaMode::asked), Catch::StartsWith("mlx5_0 o- devices.rdma of berth.conf is \"asked\""));
    CHECK_THAT(of({}, plan::RdmaMode::off), Catch::StartsWith("mlx5_0 o- devices.rdma of berth.conf is \"off\""));
}

TEST_CASE("list: Slingshot's adapters, and what closes them", "[hooks][list]") {
    FakeHost host;
    host.node("/dev/cxi0", 240, 0);
    host.node("/dev/cxi1", 240, 1);
    host.deny("/dev/cxi1");
    CHECK(lines_of(list_of("rdma", host, {})) == "cxi0 +\ncxi1 - this process may not open /dev/cxi1\n");
    CHECK(lines_of(list_of("rdma", host, {"MELLANOX_VISIBLE_DEVICES=cxi0"})) ==
          "cxi0 +\ncxi1 - this process may not open /dev/cxi1\n");
}

TEST_CASE("list: AMD GPUs, and why a container has none of them", "[hooks][list][amd]") {
    FakeHost host;
    four_amd(host);
    auto of = [&](const Job& job) { return lines_of(list_of("amd", host, job)); };
    CHECK(of({}) == "renderD128 +\nrenderD136 +\nrenderD144 +\nrenderD152 +\n");
    DeviceList list = list_of("amd", host, {});
    CHECK(list.devices.at(1).id == "GPU-ef2c1799a1f30088");
    CHECK(list.devices[1].bus == "0000:2b:00.0");
    CHECK(list.devices[1].nodes == std::vector<std::string>{"/dev/dri/renderD136", "/dev/dri/card9"});
    const std::string not_granted = "o- Slurm has not granted it: ROCR_VISIBLE_DEVICES=1,3\n";
    CHECK(of({"SLURM_JOB_ID=7", "ROCR_VISIBLE_DEVICES=1,3"}) ==
          cat("renderD128 ", not_granted, "renderD136 +\nrenderD144 ", not_granted, "renderD152 +\n"));
    CHECK_THAT(of({"AMD_VISIBLE_DEVICES=2"}),
               Catch::StartsWith("renderD128 o- AMD_VISIBLE_DEVICES does not name it\n") &&
                   Catch::Contains("\nrenderD144 +\n"));
    CHECK_THAT(of({"AMD_VISIBLE_DEVICES=none"}),
               Catch::StartsWith("renderD128 o- AMD_VISIBLE_DEVICES asks for none\n"));
    CHECK_THAT(of({"AMD_VISIBLE_DEVICES=9"}), Catch::StartsWith("renderD128 o- no container starts\n") &&
                                                  Catch::Contains("error: AMD_VISIBLE_DEVICES: 9 is not allocated"));
    only_amd(host, {136, 152});
    CHECK_THAT(of({}), Catch::StartsWith("renderD128 - this process may not open /dev/dri/renderD128, by its device "
                                         "cgroup or the node's mode\nrenderD136 +\n"));
    host.remove("/dev/kfd");
    CHECK(list_of("amd", host, {}).notes ==
          std::vector<std::string>{"no program of ROCm finds a GPU: /dev/kfd is missing"});
}

TEST_CASE("list: a family that lists nothing says so, and one that fails has its line", "[hooks][list]") {
    auto make = [](const DeviceRequest&) { return plan::ContainerEdits(); };
    auto fail = [](const DeviceListRequest&) -> DeviceList { throw Error("reading it: gone"); };
    const DeviceMaker silent{.vendor = "silent", .make = make}, broken{.vendor = "broken", .make = make, .list = fail};
    const DeviceMaker* makers[] = {&silent, &broken};
    auto families = list_devices(makers, FakeHost(), {}, {});
    REQUIRE(families.size() == 2);
    CHECK(families[0].list.notes == std::vector<std::string>{"this family lists no devices; berth plan prints what it "
                                                             "adds to a container"});
    CHECK(families[1].list.error == "reading it: gone");
}

TEST_CASE("list: berth doctor says which GPUs are of no use, and how many a container gets", "[hooks][list][doctor]") {
    auto lines = [](const Host& host, const Job& job, const plan::Site& site = {}) {
        std::string out;
        for (const DeviceStatus& one : device_statuses(host, site, job))
            if (one.subject == "GPUs") out += cat(one.level == Level::ok ? "ok " : "- ", one.text, '\n');
        return out;
    };
    FakeHost host;
    one_silent(host);
    const std::string silent =
        "- 0000:2b:00.0 cannot be used: the driver cannot reach it; it may have fallen off the bus\n";
    CHECK(lines(host, {}) == "ok 8, driver 570.86.15\n" + silent);
    CHECK(lines(host, {"SLURM_JOB_ID=1", "CUDA_VISIBLE_DEVICES=0,1"}) ==
          "ok 8, driver 570.86.15; a container started here gets 2 of 7\n" + silent);
    CHECK(lines(host, {"NVIDIA_VISIBLE_DEVICES=9"}) ==
          "ok 8, driver 570.86.15; a container started here gets 0 of 7\n" + silent +
              "- a container started here is refused: NVIDIA_VISIBLE_DEVICES: 9 is not allocated: this step has 7 "
              "GPUs, counted from 0\n");
    plan::Site site;
    site.devices.disabled = {"nvidia"};
    CHECK(lines(host, {}, site) == "- 8, driver 570.86.15; no container gets them (devices.disabled)\n");
    CHECK(lines(FakeHost(), {}) == "- no NVIDIA driver\n");
}
