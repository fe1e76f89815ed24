// The variables of a vendor in each task: the rows that Slurm 22.05.8 was measured with, and what becomes of them.

#include "runtime/base/error.hh"
#include "runtime/plan/visible_devices.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

using Variables = std::vector<std::string>;

VisibleDevice gpu(const std::string& uuid, unsigned position, bool constrained = true) {
    return {uuid, false, constrained, position, {"/dev/" + uuid}};
}
VisibleDevice slice(const std::string& uuid, unsigned position, bool constrained = true) {
    return {uuid, true, constrained, position, {"/dev/" + uuid}};
}

using Form = DeviceVariable::Form;

VisibleDevices of_nvidia(const std::vector<VisibleDevice>& devices) {
    return {"nvidia",
            {{"CUDA_VISIBLE_DEVICES", Form::uuid},
             {"ROCR_VISIBLE_DEVICES", Form::position},
             {"GPU_DEVICE_ORDINAL", Form::position},
             {"ZE_AFFINITY_MASK", Form::position}},
            devices};
}

std::vector<bool> every(const std::vector<VisibleDevice>& devices) {
    return std::vector<bool>(devices.size(), true);
}

using Changes = std::vector<std::pair<std::string, std::string>>;

/// CUDA_VISIBLE_DEVICES of the task afterwards.
std::string after(const std::vector<VisibleDevice>& devices, const std::vector<bool>& accessible,
                  const std::string& before) {
    Variables task = before == "unset" ? Variables{"X=1"} : Variables{"CUDA_VISIBLE_DEVICES=" + before};
    auto changes = visible_device_changes(
        {of_nvidia(devices)}, [&](const std::vector<VisibleDevice>&) { return accessible; }, task);
    return changes.empty() ? before : changes[0].second;
}

}  // namespace

TEST_CASE("visible devices: a job whose GPUs were divided sees all MIG devices, or each task one",
          "[plan][hooks][mig]") {
    // Slurm has granted two GPUs, of which the first has two MIG devices and the second one.
    const std::vector<VisibleDevice> divided = {slice("MIG-1", 0), slice("MIG-2", 1), slice("MIG-3", 2)};
    auto told = [&](Variables task, const std::vector<VisibleDevice>& devices) {
        auto changes = visible_device_changes({of_nvidia(devices)}, every, task);
        return changes.empty() ? "unchanged" : changes[0].second;
    };
    const std::string mig = "SLURM_SPANK_BERTH_MIG=1g.10gb", each = "SLURM_BERTH_MIG_PER_TASK=1";
    CHECK(told({"CUDA_VISIBLE_DEVICES=0,1", mig}, divided) == "MIG-1,MIG-2,MIG-3");
    CHECK(told({mig}, divided) == "MIG-1,MIG-2,MIG-3");
    CHECK(told({"CUDA_VISIBLE_DEVICES=0,1", mig, each, "SLURM_LOCALID=0"}, divided) == "MIG-1");
    CHECK(told({"CUDA_VISIBLE_DEVICES=0,1", mig, each, "SLURM_LOCALID=2"}, divided) == "MIG-3");
    CHECK_THROWS_WITH(
        told({mig, each, "SLURM_LOCALID=3"}, divided),
        "--mig-per-task: this is task 3 of the node, counted from 0, and the step has 3 MIG devices there; "
        "start fewer tasks on a node");
    // Those that the site has made, granted by Slurm.
    CHECK(told({"CUDA_VISIBLE_DEVICES=MIG-2,MIG-3", each, "SLURM_LOCALID=1"}, divided) == "MIG-3");
    // Neither concerns whole GPUs, nor a step without any.
    CHECK(told({"CUDA_VISIBLE_DEVICES=0", mig, each, "SLURM_LOCALID=0"}, {gpu("GPU-1", 0)}) == "unchanged");
    CHECK(told({"CUDA_VISIBLE_DEVICES=", mig, each, "SLURM_LOCALID=0"}, divided) == "unchanged");
    CHECK(told({"CUDA_VISIBLE_DEVICES=0", "SLURM_SPANK_BERTH_MIG="}, divided) == "MIG-1");
}

TEST_CASE("visible devices: what Slurm grants and what it says, row by row", "[plan][hooks]") {
    std::vector<VisibleDevice> two = {gpu("GPU-1", 1), gpu("GPU-3", 5)},
                               slices = {slice("MIG-1", 2), slice("MIG-2", 3)},
                               mixed = {gpu("GPU-1", 1), slice("MIG-1", 2)};
    CHECK(after(two, {true, true}, "0,1") == "0,1");
    // --gpu-bind=single:1: each task counts its own from 0.
    CHECK(after(two, {true, false}, "0") == "0");
    CHECK(after(two, {false, true}, "0") == "0");
    CHECK(after(slices, {true, true}, "MIG-1,MIG-2") == "MIG-1,MIG-2");
    // --gpu-bind=per_task:1: Slurm before 26.05 tells both tasks the first.
    CHECK(after(slices, {true, false}, "MIG-1") == "MIG-1");
    CHECK(after(slices, {false, true}, "MIG-1") == "MIG-2");
    // --gpus-per-task=TYPE:1: nothing is said to the tasks.
    CHECK(after(slices, {true, true}, "unset") == "MIG-1,MIG-2");
    CHECK(after(slices, {false, true}, "unset") == "MIG-2");
    CHECK(after(two, {true, true}, "unset") == "unset");
    CHECK(after(mixed, {true, true}, "0,MIG-1") == "GPU-1,MIG-1");
    CHECK(after(two, {false, false}, "0") == "0");
    CHECK(after({}, {}, "0,1") == "0,1");
    // Without ConstrainDevices Slurm counts the node's devices, and the container has some of them.
    std::vector<VisibleDevice> open = {gpu("GPU-1", 1, false), gpu("GPU-3", 5, false)};
    CHECK(after(open, {true, true}, "1,5") == "GPU-1,GPU-3");
    CHECK(after(open, {true, true}, "5") == "GPU-3");
    std::vector<VisibleDevice> open_slices = {slice("MIG-1", 2, false), slice("MIG-2", 3, false)};
    CHECK(after(open_slices, {true, true}, "MIG-2") == "MIG-2");
    CHECK(after({gpu("GPU-0", 0, false), gpu("GPU-1", 1, false)}, {true, true}, "0,1") == "0,1");
    // The helper sees more than the task: what the task may not open shows that Slurm counts its own.
    std::vector<VisibleDevice> four = {gpu("GPU-0", 0, false), gpu("GPU-1", 1, false), gpu("GPU-2", 2, false),
                                       gpu("GPU-3", 3, false)};
    CHECK(after(four, {false, true, false, true}, "0,1") == "0,1");
    CHECK(after(four, {false, true, true, false}, "1") == "1");
    CHECK(after(four, {false, true, true, false}, "2") == "GPU-1,GPU-2");
    CHECK(after(four, {true, true, true, true}, "2") == "2");
}

TEST_CASE("visible devices: what names nothing that the task has", "[plan][hooks]") {
    std::vector<VisibleDevice> two = {gpu("GPU-a", 0), gpu("GPU-b", 1)};
    CHECK(after(two, {true, true}, "2") == "GPU-a,GPU-b");
    CHECK(after(two, {true, true}, "GPU-c") == "GPU-a,GPU-b");
    CHECK(after(two, {false, true}, "GPU-a") == "GPU-b");
    CHECK(after(two, {true, true}, "") == "");
    CHECK(after(two, {true, true}, "NoDevFiles") == "NoDevFiles");
    CHECK(after(two, {true, true}, "1") == "1");
    // Nobody tells the UUID: as it was.
    CHECK(after({slice("", 0)}, {true}, "0") == "0");
}

TEST_CASE("visible devices: other vendors' variables follow by position", "[plan][hooks]") {
    std::vector<VisibleDevice> open = {gpu("GPU-1", 1, false), gpu("GPU-3", 5, false)};
    auto changes = visible_device_changes(
        {of_nvidia(open)}, every, {"CUDA_VISIBLE_DEVICES=5", "ROCR_VISIBLE_DEVICES=5", "GPU_DEVICE_ORDINAL=5", "A=b"});
    REQUIRE(changes.size() == 3);
    CHECK(changes[1] == std::pair<std::string, std::string>("ROCR_VISIBLE_DEVICES", "1"));
    CHECK(changes[2] == std::pair<std::string, std::string>("GPU_DEVICE_ORDINAL", "1"));
}

TEST_CASE("visible devices: which variable says what is the vendor's", "[plan][hooks]") {
    VisibleDevices numbers{"other", {{"OTHER_MASK", Form::position}}, {gpu("", 1, false), gpu("", 5, false)}};
    CHECK(visible_device_changes({numbers}, every, {"OTHER_MASK=5", "CUDA_VISIBLE_DEVICES=5"}) ==
          Changes{{"OTHER_MASK", "1"}});
    CHECK(visible_device_changes({{"none", {}, {gpu("GPU-1", 5, false)}}}, every, {"CUDA_VISIBLE_DEVICES=5"}).empty());
}

TEST_CASE("visible devices: of two vendors in a container, each has its own variable", "[plan][hooks]") {
    VisibleDevices nvidia = of_nvidia({gpu("GPU-n", 1, false)}),
                   amd{"amd", {{"ROCR_VISIBLE_DEVICES", Form::uuid}}, {gpu("GPU-a", 2, false)}};
    Variables task = {"CUDA_VISIBLE_DEVICES=1", "ROCR_VISIBLE_DEVICES=2", "ZE_AFFINITY_MASK=1"};
    Changes both = {{"CUDA_VISIBLE_DEVICES", "GPU-n"}, {"ZE_AFFINITY_MASK", "0"}, {"ROCR_VISIBLE_DEVICES", "GPU-a"}};
    CHECK(visible_device_changes({nvidia, amd}, every, task) == both);
}

TEST_CASE("visible devices: nested variables count what the vendor's own has left, where Slurm has set them",
          "[plan][hooks]") {
    VisibleDevices vendor{"other",
                          {{"OWN", Form::position}, {"NESTED", Form::nested}},
                          {gpu("", 0, false), gpu("", 1, false), gpu("", 2, false)}};
    auto changes = [&](const Variables& task) { return visible_device_changes({vendor}, every, task); };
    // Right as it is, but for what counts behind it.
    CHECK(changes({"OWN=1,2", "NESTED=1,2"}) == Changes{{"NESTED", "0,1"}});
    CHECK(changes({"OWN=0,1", "NESTED=0,1"}).empty());
    CHECK(changes({"OWN=1,2", "NESTED=1"}).empty());
    CHECK(changes({"OWN=1,2"}).empty());
    CHECK(changes({"NESTED=1,2"}).empty());
    vendor.devices.erase(vendor.devices.begin());
    CHECK(changes({"OWN=2", "NESTED=2"}) == Changes{{"OWN", "1"}, {"NESTED", "0"}});
    CHECK(changes({"OWN=2", "NESTED=0"}) == Changes{{"OWN", "1"}});
}

TEST_CASE("visible devices: through a message and back", "[plan][hooks]") {
    VisibleDevice device = slice("MIG-1", 7);
    device.nodes = {"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap75"};
    CHECK(parse_visible_device(visible_device_text(device)) == device);
    CHECK(parse_visible_device(visible_device_text(VisibleDevice())) == VisibleDevice());
    for (Form form : {Form::uuid, Form::position})
        CHECK(parse_device_variable(device_variable_text({"A_B", form})) == DeviceVariable{"A_B", form});
    for (const char* wrong : {"", "uuid", "uuid ", "index A", "uuid A B"})
        CHECK_THROWS_AS(parse_device_variable(wrong), Error);
    for (const char* wrong : {"", "GPU-1", "GPU-1 2 0 0", "GPU-1 0 0 x"})
        CHECK_THROWS_AS(parse_visible_device(wrong), Error);
}
