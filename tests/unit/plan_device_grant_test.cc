// What a step that joins a container is told of the container's devices, and what it was granted itself.

#include "runtime/base/text.hh"
#include "runtime/plan/plan.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

namespace {

Edit bound(const std::string& source) {
    Mount mount;
    mount.source = source;
    mount.target = "/in/the/image" + source;
    return {mount, "hook nvidia", "a test"};
}

/// What a maker of GPUs gives for nodes such as "nvidia0", or "nvidia2 nvidia-caps/nvidia-cap336" of a MIG device.
ContainerEdits gpus(const std::vector<std::string>& devices, const std::vector<std::string>& files = {}) {
    ContainerEdits out;
    out.vendor = "nvidia";
    out.granted = true;
    for (const std::string& text : devices) {
        VisibleDevice device;
        for (const std::string& node : split(text, ' ')) {
            device.nodes.push_back("/dev/" + node);
            out.edits.push_back(bound("/dev/" + node));
        }
        out.devices.push_back(device);
    }
    for (const std::string& file : files) out.edits.push_back(bound(file));
    return out;
}

DeviceGrant grant(const std::vector<std::string>& devices, const std::vector<std::string>& files = {}) {
    return device_grant({gpus(devices, files)});
}

bool all(const std::string&) { return true; }

/// As where Slurm keeps all devices but these from a step.
auto only(const std::string& node) {
    return [node](const std::string& path) { return path == "/dev/" + node; };
}

std::string words(const DeviceGrant& container, const DeviceGrant& step,
                  const std::function<bool(const std::string&)>& may_open = all) {
    return words_of(difference(container, step, may_open));
}

}  // namespace

TEST_CASE("device grant: the files and devices of those makers that look at what the step may have",
          "[plan][devices]") {
    ContainerEdits of_site, other;
    of_site.edits = {bound("/dev/of-the-site")};
    other.granted = true;
    other.edits = {bound("/usr/lib/b"), bound("/usr/lib/a"), {Symlink{"/usr/lib/c", "a"}, "hook", ""}};
    DeviceGrant found = device_grant({gpus({"nvidia1"}, {"/usr/lib/a"}), of_site, other});
    CHECK(found.files == std::vector<std::string>{"/dev/nvidia1", "/usr/lib/a", "/usr/lib/b"});
    REQUIRE(found.devices.size() == 1);
    CHECK(found.devices[0].vendor == "nvidia");
    CHECK(device_grant({of_site}) == DeviceGrant());
}

TEST_CASE("device grant: a step joins where the container has what it was granted, and nothing else that it could use",
          "[plan][devices]") {
    const DeviceGrant none, first = grant({"nvidia0"}), second = grant({"nvidia1"}),
                            both = grant({"nvidia0", "nvidia1"});
    CHECK(difference(none, none, all).empty());
    CHECK(difference(first, first, all).empty());
    CHECK(words(first, second) == "it has nvidia0, which this step was not granted, and lacks nvidia1");
    CHECK(words(first, second, only("nvidia1")) == "it lacks nvidia1");
    CHECK(words(none, second) == "it lacks nvidia1");
    CHECK(words(first, none) == "it has nvidia0, which this step was not granted");
    CHECK(words(both, second) == "it has nvidia0, which this step was not granted");
    CHECK(words(second, both) == "it lacks nvidia0");
    // Where Slurm keeps it from the step, a shell beside a job's tasks may be in their container.
    CHECK(difference(both, second, only("nvidia1")).empty());
    CHECK(difference(first, none, only("nvidia7")).empty());
}

TEST_CASE("device grant: MIG devices of one GPU are different ones", "[plan][devices]") {
    const std::string parent = "nvidia2 nvidia-caps/nvidia-cap";
    DeviceGrant seven = grant({parent + "336 nvidia-caps/nvidia-cap337"}),
                eight = grant({parent + "345 nvidia-caps/nvidia-cap346"});
    CHECK(words(seven, eight) == "it has nvidia-cap337, which this step was not granted, and lacks nvidia-cap346");
    auto own = [](const std::string& path) { return !path.ends_with("336") && !path.ends_with("337"); };
    CHECK(words(seven, eight, own) == "it lacks nvidia-cap346");
}

TEST_CASE("device grant: so are the driver's files that the container was started without", "[plan][devices]") {
    DeviceGrant plain = grant({"nvidia0"}, {"/lib/libcuda.so.1"}),
                video = grant({"nvidia0"}, {"/lib/libcuda.so.1", "/lib/libnvcuvid.so.1"});
    CHECK(words(plain, video) == "it lacks /lib/libnvcuvid.so.1");
    CHECK(difference(video, plain, all).empty());
    std::vector<std::string> many;
    for (int i = 10; i < 30; ++i) many.push_back(cat("/lib/", i));
    CHECK(words(plain, grant({"nvidia0"}, many)).ends_with("/lib/17 and 12 more"));
}
