#include "hooks/nvidia/nvidia.hh"
#include "tests/catch.hh"
#include "tests/fixtures/cdi_scenes.hh"
#include "tests/fixtures/machine.hh"

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
    - args: [nvidia-ctk, hook, update-ldcache, --folder, /usr/lib/)" MACHINE_TRIPLET R"(]
      hookName: createContainer
      path: /usr/bin/nvidia-ctk
    - args: [nvidia-cdi-hook, enable-cuda-compat, --host-driver-version=570.86.15]
      hookName: createContainer
      path: /usr/bin/nvidia-cdi-hook
  mounts:
    - containerPath: /usr/lib/)" MACHINE_TRIPLET R"(/libcuda.so.570.86.15
      hostPath: /usr/lib/)" MACHINE_TRIPLET R"(/libcuda.so.570.86.15
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

/// The GPUs that the profile for EGL names.
std::string profile_of(const plan::ContainerEdits& made) {
    for (const plan::Edit& edit : made.edits)
        if (const auto* file = std::get_if<plan::DropIn>(&edit.action); file && file->path == application_profile) {
            size_t at = file->content.find("0x");
            return file->content.substr(at, file->content.find(']', at) - at);
        }
    return {};
}

}  // namespace

TEST_CASE("cdi: a specification like nvidia-ctk's", "[hooks][cdi]") {
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    CHECK(spec.kind == "nvidia.com/gpu");
    CHECK(spec.common.environment == std::vector<std::string>{"NOT=a number: 1"});
    CHECK(spec.common.nodes.size() == 2);
    CHECK(spec.common.links == std::vector<std::pair<std::string, std::string>>{
                                   {"/usr/lib64/gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"}});
    CHECK(spec.common.library_folders == std::vector<std::string>{"/usr/lib/" MACHINE_TRIPLET});
    CHECK(spec.common.hooks == std::set<std::string>{hook_compat});
    CHECK(spec.common.mounts ==
          std::vector<CdiEdits::Mount>{{"/usr/lib/" MACHINE_TRIPLET "/libcuda.so.570.86.15",
                                        "/usr/lib/" MACHINE_TRIPLET "/libcuda.so.570.86.15", true, false}});
    CHECK(spec.devices.at("MIG-1").nodes.size() == 2);
}

TEST_CASE("cdi: what is not understood is refused", "[hooks][cdi]") {
    auto refused = [](const std::string& edits) {
        std::map<std::string, std::string> devices = parse_cdi(small_spec(edits), false, "x.json").refused;
        return devices.contains("x") ? devices.at("x") : "no error";
    };
    CHECK(refused("{}") == "no error");
    CHECK_THAT(refused(R"({"hooks":[{"hookName":"createContainer","path":"/usr/bin/evil","args":["evil"]}]})"),
               Catch::Contains("the hook /usr/bin/evil is none that berth does by itself"));
    CHECK_THAT(
        refused(
            R"({"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-ctk","args":["nvidia-ctk","hook",)"
            R"("run-shell"]}]})"),
        Catch::Contains("the hook run-shell"));
    CHECK_THAT(refused(R"({"capabilities":[]})"), Catch::Contains("unknown member 'capabilities'"));
    CHECK_THAT(refused(R"({"deviceNodes":[{"hostPath":"/dev/x"}]})"), Catch::Contains("it has no path"));
    CHECK_THAT(refused(R"({"env":["X"]})"), Catch::Contains("'X' is no NAME=VALUE"));
    CHECK_THAT(reason_of([] { parse_cdi(R"({"cdiVersion":"9.0.0","kind":"a.com/b"})", false, "x.json"); }),
               Catch::Contains("cdiVersion 9.0.0 is not known"));
    CHECK_THAT(reason_of([] { parse_cdi("a: *b\n", true, "x.yaml"); }), Catch::Contains("x.yaml:1: "));
    CHECK_THAT(reason_of([] { parse_cdi("a: &b 1\nc: *b\n", true, "x.yaml"); }),
               Catch::Contains("aliases are not taken"));
    CHECK_THAT(reason_of([] { parse_cdi("a: [1\n", true, "x.yaml"); }), Catch::Contains("this is no YAML"));
    CHECK_THAT(reason_of([] { parse_cdi("a: 1\na: 2\n", true, "x.yaml"); }), Catch::Contains("a key is there twice"));
}

TEST_CASE("cdi: each scene has exactly its changes, or its error", "[hooks][cdi]") {
    for (const CdiScene& scene : cdi_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image;
        plan::ContainerEdits made;
        std::string error = reason_of([&] { made = cdi_asked(host, image, scene.device); });
        CHECK_THAT(error, Catch::Contains(scene.error.empty() ? "no error" : scene.error));
        CHECK(nodes_text(targets_below(made, "/dev")) == scene.nodes);
        CHECK(proc_text(targets_below(made, "/proc/driver/nvidia")) == scene.proc);
        CHECK(profile_of(made) == scene.profile);
        CHECK((made.environment.empty() ? "" : made.environment[0]) == scene.environment);
        CHECK(made.warnings.empty());
    }
}

TEST_CASE("cdi: changes go through lines and through a specification unchanged", "[hooks][cdi]") {
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    CdiEdits edits = spec.common;
    edits.append(spec.devices.at("MIG-1"));
    edits.mounts.push_back({"", "/scratch", false, true, {{"size", "12g"}, {"mode", "1777"}}});
    edits.groups = {44, 109};
    CHECK(parse_cdi_edits(lines_of(edits, "CDI"), "lines") == edits);
    CHECK(parse_cdi(cdi_text("a.com/b", edits), false, "x.json").devices.at("all") == edits);
    edits.environment = {"A=b\nc"};
    CHECK_THROWS_WITH(lines_of(edits, "hooks.d/a"),
                      "hooks.d/a: a change of the container has control characters in it: A=b\\x0ac");
    CHECK_THROWS_AS(parse_cdi_edits("node\t/dev/x\n", "lines"), Error);
}

TEST_CASE(
    "cdi: specifications of eight GPUs and of slices go through lines and through a specification of ours unchanged",
    "[hooks][cdi]") {
    for (const std::string& text : {spec_of_eight(), spec_of_slices()}) {
        CdiSpec spec = parse_cdi(text, true, "nvidia.yaml");
        CHECK(spec.devices.size() == (text == spec_of_eight() ? 17 : 8));
        for (const auto& [name, own] : spec.devices) {
            INFO(name);
            CdiEdits edits = spec.common;
            edits.append(own);
            CHECK(edits.hooks == std::set<std::string>{hook_compat, hook_keep_nodes, hook_profile});
            CHECK(parse_cdi_edits(lines_of(edits, "CDI"), "lines") == edits);
            CHECK(parse_cdi(cdi_text("nvidia.com/gpu", edits), false, "x.json").devices.at("all") == edits);
        }
    }
}

TEST_CASE("cdi: our own answer for a node, as a specification and back", "[hooks][cdi]") {
    auto ours = [](const std::function<void(FakeHost&)>& make, const std::string& capabilities) {
        FakeHost host;
        make(host);
        FakeImage image;
        CdiEdits edits = cdi_edits_of(
            asked(host, image, {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=" + capabilities}, {}));
        CHECK(edits.hooks.contains(hook_keep_nodes));
        CHECK(parse_cdi(cdi_text("nvidia.com/gpu", edits), false, "x.json").devices.at("all") == edits);
        return edits;
    };
    CHECK(ours([](FakeHost& host) { eight(host, false); }, "compute,utility").nodes.size() == 11);
    CHECK(ours([](FakeHost& host) { eight(host, false); }, "graphics").hooks.contains(hook_profile));
    // Control nodes, the parent, seven slices of two nodes, and the whole GPU.
    CHECK(ours([](FakeHost& host) { sliced(host); }, "compute,utility").nodes.size() == 3 + 1 + 14 + 1);
}

TEST_CASE("cdi: modes of directories come before what is mounted in them", "[hooks][cdi]") {
    FakeHost host;
    eight_by_cdi(host);
    FakeImage image;
    plan::ContainerEdits made = cdi_asked(host, image, "nvidia.com/gpu=2");
    REQUIRE(std::get_if<plan::Directory>(&made.edits[0].action));
    CHECK(std::get<plan::Directory>(made.edits[0].action).path == "/dev/dri");
    CHECK(std::get<plan::Directory>(made.edits[0].action).mode == 0755);
    for (const plan::Edit& edit : made.edits) CHECK(edit.origin.text() == "CDI");
}

TEST_CASE("cdi: as edits of a plan", "[hooks][cdi]") {
    FakeHost host;
    eight(host, false);
    FakeImage image;
    CdiSpec spec = parse_cdi(yaml, true, "gpu.yaml");
    plan::ContainerEdits made = container_edits_of(spec.common, host, image, "CDI");
    std::string names;
    for (const plan::Edit& edit : made.edits)
        if (const auto* loader = std::get_if<plan::LoaderLibraries>(&edit.action))
            for (const plan::CachedLibrary& library : loader->libraries) names += library.name + " ";
    CHECK(names == "libcuda.so.1 libcuda.so.570.86.15 ");
    CdiEdits bad;
    bad.nodes = {{"/dev/null", "/"}};
    CHECK_THROWS_WITH(container_edits_of(bad, host, image, "hook x.sh"), Catch::StartsWith("hook x.sh: /: "));
    bad.nodes = {{"relative", "/dev/x"}};
    CHECK_THROWS_AS(container_edits_of(bad, host, image, "hook x.sh"), Error);
}
