#include <catch2/catch.hpp>

#include "hooks/cdi.hh"
#include "runtime/base/error.hh"
#include "tests/fixtures/gpu_scenes.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

// As nvidia-ctk writes it, shortened: a GPU, a MIG device and all.
const std::string yaml = R"(---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
    - path: /dev/nvidiactl
    - path: /dev/nvidia-uvm
  env:
    - NVIDIA_VISIBLE_DEVICES=void
    - "NOT=a number: 1"
  hooks:
    - args: [nvidia-cdi-hook, create-symlinks, --link, "../libnvidia-allocator.so.1::/usr/lib64/gbm/nvidia-drm_gbm.so"]
      hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
    - args: [nvidia-ctk, hook, update-ldcache, --folder, /usr/lib/x86_64-linux-gnu]
      hookName: createContainer
      path: /usr/bin/nvidia-ctk
    - args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=570.86.15]
      hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
  mounts:
    - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15
      hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15
      options: [ro, nosuid, nodev, rbind, rprivate]
devices:
  - name: "0"
    containerEdits:
      deviceNodes:
        - path: /dev/nvidia0
          hostPath: /dev/nvidia0
  - name: MIG-1
    containerEdits:
      deviceNodes:
        - {path: /dev/nvidia1}
        - {path: /dev/nvidia-caps/nvidia-cap75, permissions: r, fileMode: 292}
kind: nvidia.com/gpu
)";

std::string reason_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

std::string json_with(const std::string& edits) { return R"({"cdiVersion":"0.6.0","kind":"a.com/b","devices":[{"name":"x","containerEdits":)" + edits + "}]}"; }

}  // namespace

TEST_CASE("cdi: a specification like nvidia-ctk's", "[hooks][cdi]") {
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    CHECK(spec.kind == "nvidia.com/gpu");
    CHECK(spec.common.environment == std::vector<std::string>{"NOT=a number: 1"});
    CHECK(spec.common.nodes.size() == 2);
    CHECK(spec.common.links == std::vector<std::pair<std::string, std::string>>{{"/usr/lib64/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"}});
    CHECK(spec.common.library_folders == std::vector<std::string>{"/usr/lib/x86_64-linux-gnu"});
    CHECK(spec.common.cuda_compat);
    CHECK(spec.common.mounts ==
          std::vector<DeviceEdits::Mount>{{"/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15", "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15", true, false}});
    CHECK(spec.devices.at("MIG-1").nodes.size() == 2);
}

TEST_CASE("cdi: what is not understood is refused", "[hooks][cdi]") {
    auto refused = [](const std::string& edits) { return reason_of([&] { parse_cdi(json_with(edits), false, "x.json"); }); };
    CHECK(refused("{}") == "no error");
    CHECK_THAT(refused(R"({"hooks":[{"hookName":"createContainer","path":"/usr/bin/evil","args":["evil"]}]})"),
               Catch::Contains("the hook /usr/bin/evil is none that berth does by itself"));
    CHECK_THAT(refused(R"({"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-ctk","args":["nvidia-ctk","hook","run-shell"]}]})"),
               Catch::Contains("the hook run-shell"));
    CHECK_THAT(refused(R"({"capabilities":[]})"), Catch::Contains("unknown member 'capabilities'"));
    CHECK_THAT(refused(R"({"deviceNodes":[{"hostPath":"/dev/x"}]})"), Catch::Contains("it has no path"));
    CHECK_THAT(refused(R"({"env":["X"]})"), Catch::Contains("'X' is no NAME=VALUE"));
    CHECK_THAT(reason_of([] { parse_cdi(R"({"cdiVersion":"9.0.0","kind":"a.com/b"})", false, "x.json"); }), Catch::Contains("cdiVersion 9.0.0 is not known"));
    CHECK_THAT(reason_of([] { parse_cdi("a: *b\n", true, "x.yaml"); }), Catch::Contains("x.yaml:1: "));
    CHECK_THAT(reason_of([] { parse_cdi("a: &b 1\nc: *b\n", true, "x.yaml"); }), Catch::Contains("aliases are not taken"));
    CHECK_THAT(reason_of([] { parse_cdi("a: [1\n", true, "x.yaml"); }), Catch::Contains("this is no YAML"));
    CHECK_THAT(reason_of([] { parse_cdi("a: 1\na: 2\n", true, "x.yaml"); }), Catch::Contains("a key is there twice"));
}

TEST_CASE("cdi: the later folder counts, two files of one folder contradict", "[hooks][cdi]") {
    FakeFolder node;
    auto spec = [](const std::string& device) { return json_with(R"({"deviceNodes":[{"path":")" + device + "\"}]}"); };
    node.file("/etc/cdi/a.json", spec("/dev/old"));
    node.file("/run/cdi/a.json", spec("/dev/new"));
    node.file("/etc/cdi/gpu.yaml", yaml);
    std::vector<std::string> folders = {node.path() + "/etc/cdi", node.path() + "/run/cdi", node.path() + "/none"};
    CHECK(find_cdi_devices(folders, {"a.com/b=x"}).nodes[0].first == "/dev/new");
    CHECK(find_cdi_devices(folders, {"nvidia.com/gpu=0", "nvidia.com/gpu=MIG-1"}).nodes.size() == 5);
    CHECK_THAT(reason_of([&] { find_cdi_devices(folders, {"a.com/b=y"}); }), Catch::Contains("CDI device a.com/b=y: no specification of this node has it"));
    CHECK_THAT(reason_of([&] { find_cdi_devices(folders, {"nonsense"}); }), Catch::Contains("it is no VENDOR/CLASS=NAME"));
    node.file("/run/cdi/b.json", spec("/dev/other"));
    CHECK_THAT(reason_of([&] { find_cdi_devices(folders, {"a.com/b=x"}); }), Catch::Contains("/run/cdi/b.json have it"));
}

TEST_CASE("cdi: changes go through lines and through a specification unchanged", "[hooks][cdi]") {
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    DeviceEdits edits = spec.common;
    edits.append(spec.devices.at("MIG-1"));
    edits.mounts.push_back({"", "/scratch", false, true});
    CHECK(parse_device_edits(lines_of(edits), "lines") == edits);
    CHECK(parse_cdi(cdi_text("a.com/b", edits), false, "x.json").devices.at("all") == edits);
    edits.environment = {"A=b\nc"};
    CHECK_THROWS_AS(lines_of(edits), Error);
    CHECK_THROWS_AS(parse_device_edits("node\t/dev/x\n", "lines"), Error);

    // Our own answer for a node, as a specification and back.
    FakeHost host;
    eight(host, false);
    FakeImage image;
    DeviceEdits ours = device_edits_of(asked(host, image, {"NVIDIA_VISIBLE_DEVICES=all"}, {}));
    CHECK(ours.nodes.size() == 11);
    CHECK(parse_cdi(cdi_text("nvidia.com/gpu", ours), false, "x.json").devices.at("all") == ours);
}

TEST_CASE("cdi: as edits of a plan", "[hooks][cdi]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    plan::Additions additions = additions_of(spec.common, host, image, "CDI");
    std::string names;
    for (const plan::Edit& edit : additions.edits)
        if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action))
            for (const plan::CachedLibrary& library : loader->libraries) names += library.name + " ";
    CHECK(names == "libcuda.so.570.86.15 libcuda.so.1 ");
    DeviceEdits bad;
    bad.nodes = {{"/dev/null", "/"}};
    CHECK_THROWS_WITH(additions_of(bad, host, image, "hook x.sh"), Catch::StartsWith("hook x.sh: /: "));
    bad.nodes = {{"relative", "/dev/x"}};
    CHECK_THROWS_AS(additions_of(bad, host, image, "hook x.sh"), Error);
}
