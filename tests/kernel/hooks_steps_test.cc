// Steps of Slurm with GPUs, in real containers: a task's cgroup is played by the modes of made nodes.
#include <sys/stat.h>

#include <algorithm>

#include "tests/fixtures/step_scenes.hh"
#include "tests/kernel/hooks_start.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

namespace {

/// What the task is told, where it can open its own nodes of the container and no others.
std::string told_to(const StepTask& task, const plan::ContainerEdits& made) {
    std::vector<std::string> open = split(task.open, ' ');
    std::vector<std::string> closed;
    for (const plan::VisibleDevice& device : made.devices)
        for (const std::string& node : device.nodes)
            if (std::ranges::find(open, node.substr(std::string("/dev/").size())) == open.end()) closed.push_back(node);
    for (const std::string& node : closed) ::chmod(node.c_str(), 0);
    std::string out = told_inside(task, plan::visible_device_changes(tasks_choose_from(made), plan::accessible_devices,
                                                                     environment_of(task)));
    for (const std::string& node : closed) ::chmod(node.c_str(), 0644);
    return out;
}

}  // namespace

TEST_CASE("each scene of steps has its devices in the container, and each task is told of its own", "[kernel][hooks]") {
    NEED_CONTAINERS();
    for (const StepScene& scene : step_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        host.answers = [&] { return std::optional(nvml_lines(nvml_of(host))); };
        give_to_user(host);
        ContainerImage image = image_of(all_gpus);
        std::string expected = scene.nodes;
        for (const StepTask& task : scene.tasks)
            expected += cat("\n", task.visible.empty() ? task.told : task.visible);
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [&](const plan::ContainerEdits& made) {
                std::string out = nodes_text(found_below("/dev")) + wrong_nodes();
                for (const StepTask& task : scene.tasks) out += "\n" + told_to(task, made);
                return out;
            };
            std::string text = started(host, {}, std::move(image), scene.job, look, warnings);
            return text + warnings_text(warnings);
        });
        check(seen, scene.error, expected, "");
    }
}
