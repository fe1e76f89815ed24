// The files of whole drivers in a real container as an ordinary user, from a root of the driver's own.
#include <unistd.h>

#include "tests/fixtures/driver_manifest.hh"
#include "tests/kernel/hooks_start.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

namespace {

/// What of the plan is otherwise in this task's root: nothing. A file of the driver has its own path in it.
std::string wrong_files(const plan::ContainerEdits& made, const std::string& root, size_t& files) {
    std::string out;
    for (const plan::Edit& edit : made.edits) {
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        const auto* link = std::get_if<plan::Symlink>(&edit.action);
        if (mount && mount->source.starts_with(root)) {
            ++files;
            std::string path = mount->source.substr(root.size());
            if (slurp(mount->target).find(path) == std::string::npos) out += mount->target + "\n";
        }
        if (!link) continue;
        bool leads = ::access(link->path.c_str(), R_OK) == 0;
        if (!leads || std::filesystem::read_symlink(link->path) != link->target)
            out += cat(link->path, " -> ", link->target, "\n");
    }
    return out;
}

}  // namespace

TEST_CASE("each driver's files are in the container, from a root of the driver's own and through its absolute links",
          "[kernel][hooks][driver]") {
    NEED_CONTAINERS();
    for (const std::string& name : DriverManifest::all()) {
        INFO(name);
        FakeHost host;
        DriverManifest driver(name);
        plan::Site site;
        site.devices.driver_root = "/run/nvidia/driver";
        driver.install(host, site.devices.driver_root);
        give_to_user(host);
        ContainerImage image = image_of({});
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            size_t files = 0;
            std::string text = started(
                host, site, std::move(image), {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"},
                [&](const plan::ContainerEdits& made) {
                    std::string wrong = wrong_files(made, host.real(site.devices.driver_root), files);
                    return cat(wrong, files > 3 ? "" : "too few files");
                },
                warnings);
            return text + warnings_text(warnings);
        });
        check(seen, "", "", "");
    }
}
