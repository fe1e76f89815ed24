// The list of device families: what the whole program takes from it.
#include <algorithm>

#include "hooks/makers.hh"
#include "tests/catch.hh"
#include "tests/fixtures/fake_host.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;
using Level = DeviceStatus::Level;

namespace {

DeviceStatus status_of(const std::string& vendor, const Host& host, const plan::Site& site = {}) {
    auto found = std::ranges::find_if(device_makers(), [&](const auto* maker) { return maker->vendor == vendor; });
    REQUIRE((found != device_makers().end() && (*found)->status));
    return (*found)->status(host, site);
}

}  // namespace

TEST_CASE("makers: each has a name of its own, and does the hooks that it names", "[hooks]") {
    std::set<std::string> names;
    for (const DeviceMaker* maker : device_makers()) {
        CHECK(names.insert(maker->vendor).second);
        CHECK(maker->make != nullptr);
        CHECK((maker->do_cdi_hooks != nullptr) == !maker->cdi_hooks.empty());
    }
}

TEST_CASE("makers: what berth doctor is told of a node", "[hooks][doctor]") {
    FakeHost host;
    CHECK(status_of("nvidia", host).text == "no NVIDIA driver");
    CHECK(status_of("rdma", host).text == "no adapters");
    host.node("/dev/nvidia0", 195, 0);
    CHECK(status_of("nvidia", host).text == "1 device nodes, but no driver is loaded");
    host.driver("570.86.15", "570.86.15");
    DeviceStatus gpus = status_of("nvidia", host);
    CHECK((gpus.level == Level::ok && gpus.text == "1, driver 570.86.15" && gpus.pins_memory.empty()));
    host.verbs(0, "mlx5_0", "0000:1a:00.0");
    DeviceStatus adapters = status_of("rdma", host);
    CHECK((adapters.level == Level::ok && adapters.text == "1 RDMA adapter"));
    CHECK(adapters.pins_memory == "RDMA adapters");
    plan::Site none;
    none.devices.rdma = plan::RdmaMode::off;
    CHECK(status_of("rdma", host, none).level == Level::failure);
    host.verbs(1, "mlx5_1", "0000:2a:00.0");
    host.deny("/dev/infiniband/uverbs0");
    CHECK(status_of("rdma", host).text == "2 RDMA adapters, of which this user may open 1");
    host.deny("/dev/infiniband/uverbs1");
    adapters = status_of("rdma", host);
    CHECK((adapters.level == Level::failure && adapters.text == "2 RDMA adapters, of which this user may open none"));
    CHECK_THAT(adapters.advice, Catch::Contains("mode 0666"));
}
