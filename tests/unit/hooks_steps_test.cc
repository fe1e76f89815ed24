#include <algorithm>

#include "hooks/devices.hh"
#include "runtime/base/environment.hh"
#include "tests/catch.hh"
#include "tests/fixtures/container_edits.hh"
#include "tests/fixtures/step_scenes.hh"

using namespace berth;
using namespace berth::fixtures;

namespace {

/// Of a step that joins: what its own container, made so, would have.
void check_grant(const FakeHost& host, plan::ContainerEdits made, const std::vector<std::string>& job) {
    made.vendor = "nvidia";
    made.granted = true;
    plan::DeviceGrant of_container = plan::device_grant({made}), own = granted_devices(host, all_gpus, {}, job);
    CHECK(own.files == of_container.files);
    CHECK(plan::difference(of_container, own, [](const std::string&) { return true; }).empty());
    bool asks = variable(job, "NVIDIA_VISIBLE_DEVICES") != nullptr;
    CHECK((granted_devices(host, {}, {}, job) == plan::DeviceGrant()) != asks);
}

/// By the nodes that a task's cgroup opens.
plan::Accessible opens(const StepTask& task) {
    return [open = split(task.open, ' ')](const std::vector<plan::VisibleDevice>& devices) {
        std::vector<bool> out;
        for (const plan::VisibleDevice& device : devices)
            out.push_back(std::ranges::all_of(device.nodes, [&](const std::string& node) {
                return std::ranges::find(open, node.substr(std::string("/dev/").size())) != open.end();
            }));
        return out;
    };
}

}  // namespace

TEST_CASE("steps: a container has its step's GPUs, which a step that joins compares, and each task is told of its own",
          "[hooks][nvidia]") {
    CHECK(step_scenes().size() >= 60);
    for (const StepScene& scene : step_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image;
        plan::ContainerEdits made;
        std::string error = reason_of([&] { made = asked(host, image, all_gpus, scene.job); });
        CHECK_THAT(error, Catch::Contains(scene.error.empty() ? "no error" : scene.error));
        if (!scene.error.empty()) continue;
        check_grant(host, made, scene.job);
        CHECK(nodes_text(targets_below(made, "/dev")) == scene.nodes);
        CHECK(made.warnings.empty());
        for (const StepTask& task : scene.tasks)
            CHECK(told_inside(task, plan::visible_device_changes(tasks_choose_from(made), opens(task),
                                                                 environment_of(task))) ==
                  (task.visible.empty() ? task.told : task.visible));
    }
}
