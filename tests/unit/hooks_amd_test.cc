#include "tests/catch.hh"
#include "tests/fixtures/amd_scenes.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

/// A task that may open all nodes but those.
plan::Accessible all_but(const std::vector<std::string>& denied) {
    return [denied](const std::vector<plan::VisibleDevice>& devices) {
        std::vector<bool> out;
        for (const plan::VisibleDevice& device : devices)
            out.push_back(std::find_first_of(device.nodes.begin(), device.nodes.end(), denied.begin(), denied.end()) ==
                          device.nodes.end());
        return out;
    };
}

}  // namespace

TEST_CASE("amd: each scene has exactly its devices and variables, or its error", "[hooks][amd]") {
    for (const AmdScene& scene : amd_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        plan::ContainerEdits made;
        std::string error = reason_of([&] { made = amd_hook(host, amd_request(scene.image, scene.job)); });
        CHECK_THAT(error, Catch::Contains(scene.error.empty() ? "no error" : scene.error));
        CHECK(joined(targets_below(made, "/dev")) == scene.nodes);
        CHECK(targets_below(made, "").size() == targets_below(made, "/dev").size());
        CHECK(amd_visible(made, all_but({}), scene.job) == scene.visible);
        if (!scene.denied_later.empty())
            CHECK(amd_visible(made, all_but(scene.denied_later), scene.job) == scene.visible_later);
        CHECK((made.warnings.empty() ? "" : made.warnings[0]).find(scene.warning) != std::string::npos);
        CHECK(made.warnings.size() == (scene.warning.empty() ? 0 : 1));
    }
}

TEST_CASE("amd: on a node without the driver one question is asked", "[hooks][amd]") {
    // A folder that cannot be looked into would be an error of whoever looks for more.
    struct Asked : FakeHost {
        Access access(const std::string&, bool) const override {
            ++count;
            return Access::missing;
        }
        mutable int count = 0;
    } host;
    host.node("/dev/kfd", 511, 0);
    CHECK(find_amd(host).gpus.empty());
    CHECK(host.count == 0);
    host.directory("/sys/module/amdgpu");
    CHECK(find_amd(host).gpus.empty());
    CHECK(host.count == 1);
}

TEST_CASE("amd: tasks choose in the order of the kernel's topology, and a shared unique id is nobody's",
          "[hooks][amd]") {
    auto devices = [](const std::function<void(FakeHost&)>& fill) {
        FakeHost host;
        fill(host);
        std::string out;
        AmdNode node = find_amd(host);
        const AmdRequest everything = amd_request({}, {});
        for (const plan::VisibleDevice& one : visible_amd_devices(node, everything, choose_amd(node, everything)))
            out += cat(one.nodes[0], " ", one.uuid, " ", one.position, one.constrained ? " constrained\n" : "\n");
        return out;
    };
    CHECK(devices(shuffled_amd) ==
          "/dev/dri/renderD128 GPU-ef2c1799a1f30080 0\n/dev/dri/renderD129 GPU-ef2c1799a1f30081 1\n");
    CHECK(devices(parted_amd) ==
          "/dev/dri/renderD128  0\n/dev/dri/renderD129  1\n/dev/dri/renderD136  2\n/dev/dri/renderD137  3\n");
    CHECK(devices([](FakeHost& host) {
              four_amd(host);
              only_amd(host, {152});
          }) == "/dev/dri/renderD152 GPU-ef2c1799a1f30098 3 constrained\n");
    CHECK(devices([](FakeHost& host) {
              amd_driver(host);
              amd_gpu(host, 3, 2, 128, 0);
              amd_gpu(host, 4, 3, 129, 5);
          }) == "/dev/dri/renderD128  0\n/dev/dri/renderD129 GPU-0000000000000005 1\n");
}

TEST_CASE("amd: properties of the kernel's topology", "[hooks][amd]") {
    CHECK(parse_kfd_properties(kfd_text(136, 7, 0xc309, 1)) == KfdProperties{136, 7, "0001:c3:01.1"});
    CHECK(parse_kfd_properties("drm_render_minor 128\nlocation_id 1280\n") == KfdProperties{128, 0, "0000:05:00.0"});
    CHECK(parse_kfd_properties("unique_id 18446744073709551615\ndrm_render_minor 128\n")->unique_id == UINT64_MAX);
    for (const char* none : {"", "drm_render_minor 0\n", "drm_render_minor -1\n", "drm_render_minor 9999999\n",
                             "drm_render_minor\n", "xdrm_render_minor 128\n"})
        CHECK_FALSE(parse_kfd_properties(none));
}

TEST_CASE("amd: what berth doctor is told", "[hooks][amd][doctor]") {
    using Level = DeviceStatus::Level;
    auto told = [](const std::function<void(FakeHost&)>& fill) {
        FakeHost host;
        fill(host);
        DeviceStatus status = amd_status(find_amd(host));
        return cat(status.subject, ": ", status.text, status.level == Level::failure ? "!" : "",
                   status.advice.empty() ? "" : " " + status.advice.substr(0, 10));
    };
    CHECK(told([](FakeHost&) {}) == "AMD GPUs: none");
    CHECK(told(four_amd) == "AMD GPUs: 4");
    CHECK(told([](FakeHost& host) { four_amd(host), only_amd(host, {128}); }) ==
          "AMD GPUs: 4, of which this user may open 1");
    CHECK(told([](FakeHost& host) { four_amd(host), only_amd(host, {}); }) ==
          "AMD GPUs: 4, of which this user may open none! make users");
    CHECK(told([](FakeHost& host) { four_amd(host), host.deny("/dev/kfd"); }) ==
          "AMD GPUs: 4, of which this user may open 4, but not /dev/kfd! make users");
    CHECK(told([](FakeHost& host) { four_amd(host), host.remove("/dev/kfd"); }) ==
          "AMD GPUs: 4, but no /dev/kfd! see the ke");
}
