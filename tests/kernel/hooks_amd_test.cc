// AMD GPUs in a real container as an ordinary user: a folder with fake devices stands for the node.
#include <sys/stat.h>

#include "tests/fixtures/amd_scenes.hh"
#include "tests/kernel/hooks_start.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

TEST_CASE("each scene of AMD GPUs has exactly its devices in the container, or its error and no container",
          "[kernel][hooks][amd]") {
    NEED_CONTAINERS();
    for (const AmdScene& scene : amd_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        give_to_user(host);
        ContainerImage image = image_of(scene.image);
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [&](const plan::ContainerEdits& made) {
                std::string text = cat(joined(found_below("/dev")), "|", wrong_nodes(), "|",
                                       amd_visible(made, plan::accessible_devices, scene.job), "|");
                for (const std::string& node : scene.denied_later) ::chmod(node.c_str(), 0);
                return scene.denied_later.empty() ? text
                                                  : text + amd_visible(made, plan::accessible_devices, scene.job);
            };
            std::string text = started(host, {}, std::move(image), scene.job, look, warnings);
            return text + warnings_text(warnings);
        });
        check(seen, scene.error, cat(scene.nodes, "||", scene.visible, "|", scene.visible_later), scene.warning);
    }
}
