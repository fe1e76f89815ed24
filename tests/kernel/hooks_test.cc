// What hooks plan, done in a real container as an ordinary user: a folder with fake devices stands for the node.
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "hooks/devices.hh"
#include "tests/fixtures/cdi_scenes.hh"
#include "tests/fixtures/machine.hh"
#include "tests/fixtures/rdma_scenes.hh"
#include "tests/kernel/hooks_start.hh"
#include "tests/kernel/hooks_view.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

TEST_CASE("each scene of GPUs has exactly its files in the container, or its error and no container",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    for (const GpuScene& scene : gpu_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        host.answers = [&] {
            return host.exists("/nvml-trouble") ? std::nullopt : std::optional(nvml_lines(nvml_of(host)));
        };
        give_to_user(host);
        ContainerImage image = image_of(scene.image, scene.files);
        plan::Site site;
        site.devices.nvidia = scene.required ? plan::NvidiaMode::required : plan::NvidiaMode::automatic;
        std::string later = scene.denied_later.empty() ? "" : scene.visible_later;
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [&](const plan::ContainerEdits& made) {
                std::string first = seen_by_task(scene, made);
                for (const std::string& node : scene.denied_later) ::chmod(node.c_str(), 0);
                return first + (scene.denied_later.empty() ? "" : visible(made, scene.job));
            };
            std::string text = started(host, site, std::move(image), scene.job, look, warnings);
            return text + warnings_text(warnings);
        });
        check(seen, scene.error, scene.view().text() + later, scene.warning);
    }
}

TEST_CASE("a device family that the site has disabled is not asked, and another name is an error", "[kernel][hooks]") {
    FakeHost host;
    eight(host, false);
    four_adapters(host);
    ContainerImage image = image_of({"NVIDIA_VISIBLE_DEVICES=all", "MELLANOX_VISIBLE_DEVICES=all"});
    auto vendors = [&](const std::vector<std::string>& disabled) {
        plan::Site site;
        site.devices.disabled = disabled;
        std::string out;
        for (const plan::ContainerEdits& made : device_edits(host, image, site, {}, {})) out += made.vendor + " ";
        return out;
    };
    CHECK(vendors({}) == "nvidia rdma ");
    CHECK(vendors({"nvidia"}) == "rdma ");
    CHECK(vendors({"rdma", "nvidia"}) == "");
    CHECK_THAT(reason_of([&] { vendors({"nvidea"}); }),
               Catch::StartsWith("devices.disabled: 'nvidea' is none of nvidia, "));
}

TEST_CASE("each scene of RDMA adapters has exactly its files in the container, or its error and no container",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    for (const RdmaScene& scene : rdma_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        ContainerImage image = image_of(scene.image);
        plan::Site site;
        site.devices.rdma = scene.mode;
        site.devices.rdma_userspace = scene.userspace;
        Outcome seen = as_user([&] {
            std::vector<std::string> warnings;
            auto look = [&](const plan::ContainerEdits& made) {
                std::string lost;
                for (const std::string& path : split(scene.files, ' '))
                    if (!std::filesystem::exists("/" + path)) lost += path + " ";
                std::string environment;
                for (const std::string& one : made.environment) environment += (environment.empty() ? "" : " ") + one;
                return cat(joined(found_below("/dev")), "|", environment, "|", lost, wrong_nodes());
            };
            std::string text = started(host, site, std::move(image), scene.job, look, warnings);
            return text + warnings_text(warnings);
        });
        check(seen, scene.error, cat(scene.nodes, "|", scene.environment, "|"), scene.warning);
    }
}

TEST_CASE("each scene of CDI has exactly its files in the container, or its error and no container",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    for (const CdiScene& scene : cdi_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        ContainerImage image = image_of({});
        Outcome seen = as_user([&] {
            plan::ContainerEdits made = cdi_asked(host, hooks::ServedRootfs(image.index, image.layers), scene.device);
            StartedContainer container = start_container(plan_on(host, made), std::move(image), {});
            return run_task(container, [&] {
                std::string profile =
                    std::filesystem::exists(hooks::application_profile) ? slurp(hooks::application_profile) : "";
                bool driver = made.edits.size() > 1;
                return cat(
                    nodes_text(found_below("/dev")), "|", driver ? proc_text(found_below("/proc/driver/nvidia")) : "",
                    "|", driver ? params() : "0", loaded() == "/usr/lib64/libcuda.so.1", "|",
                    scene.profile.empty() ? profile.empty() : profile.find(scene.profile + "]") != std::string::npos,
                    wrong_nodes());
            });
        });
        bool driver = !scene.profile.empty();
        check(seen, scene.error, cat(scene.nodes, "|", scene.proc, "|0", driver, "|1"), "");
    }
}

namespace {

/// In a user namespace: the node has the fake driver's files in /proc. The ordinary user can do that much.
void show_proc_of(const FakeHost& host) {
    for (const char* path : {"/proc/driver", "/proc/devices"})
        if (::mount((host.path() + path).c_str(), path, nullptr, MS_BIND | MS_REC, nullptr) != 0)
            throw SysError(cat("mounting over ", path));
}

}  // namespace

TEST_CASE("berth run on a node that cannot give what is asked for: one line, and the command does not run",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    SiteScene berth;
    unsigned runs = 0;
    for (const GpuScene& scene : gpu_scenes()) {
        if (scene.error.empty() || !scene.early) continue;
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        give_to_user(host);
        std::vector<std::string> variables = scene.image;
        variables.insert(variables.end(), scene.job.begin(), scene.job.end());
        std::string site = cat("[devices]\ndriver_root = \"", host.path(), "\"\ndevice_root = \"", host.path(),
                               "\"\nnvidia = \"", scene.required ? "required" : "auto", "\"\n");
        berth.prepare = [&] { show_proc_of(host); };
        Outcome seen = berth.berth(site, {"run", berth.image, "/bin/inside"}, variables);
        CHECK(seen.error == "");
        CHECK_THAT(seen.text, Catch::StartsWith("berth: ") && Catch::Contains(scene.error) && Catch::EndsWith("|125"));
        CHECK(std::count(seen.text.begin(), seen.text.end(), '\n') == 1);
        ++runs;
    }
    CHECK(runs >= 14);
}

TEST_CASE("berth run with devices of CDI, and with specifications that are refused", "[kernel][hooks]") {
    NEED_CONTAINERS();
    SiteScene berth;
    for (const CdiScene& scene : cdi_scenes()) {
        if (scene.error.empty()) continue;
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        std::string site =
            cat("[devices]\ncdi_folders = \"", host.path(), "/etc/cdi ", host.path(), "/run/cdi\"\n");
        berth.prepare = [&] { show_proc_of(host); };
        Outcome refused =
            berth.berth(site, {"run", berth.image, "/bin/inside"}, {"BERTH_DEVICES=" + scene.device});
        CHECK(refused.error == "");
        CHECK_THAT(refused.text,
                   Catch::StartsWith("berth: ") && Catch::Contains(scene.error) && Catch::EndsWith("|125"));
        CHECK(std::count(refused.text.begin(), refused.text.end(), '\n') == 1);
    }
    FakeHost host;
    host.file("/etc/cdi/a.json",
              small_spec(R"({"env":["FROM_CDI=yes"],"deviceNodes":[{"path":"/dev/odd","hostPath":"/dev/zero"}]})"));
    berth.prepare = {};
    CHECK(berth.shell(cat("[devices]\ncdi_folders = \"", host.path(), "/etc/cdi\"\n"),
                      "echo $FROM_CDI; /usr/bin/head -c 3 /dev/odd | /usr/bin/wc -c", {"BERTH_DEVICES=a.com/b=x"})
              .text == "yes\n3\n|0");
    auto listed = [&](const std::string& name) {
        return berth.berth(cat("[devices]\ncdi_folders = \"", host.path(), "/etc/cdi\"\n"), {"devices"},
                           {"BERTH_DEVICES=" + name}).text;
    };
    CHECK_THAT(listed("a.com/b=x"), Catch::Contains("\ncdi      a.com/b=x  CDI device  ") &&
                                        Catch::Contains("  yes   yes        \n") &&
                                        Catch::Contains("; specifications: " + host.path() + "/etc/cdi/a.json\n"));
    CHECK_THAT(listed("a.com/b=y"), Catch::Contains("\ncdi      a.com/b=y  CDI device  ") &&
                                        Catch::Contains("  no    no         ") && Catch::Contains("a.com/b=y"));
}

TEST_CASE("berth run with BERTH_PLAN=1 prints what the container is made of, and runs", "[kernel][hooks]") {
    NEED_CONTAINERS();
    NamedScene berth;
    auto said = [&](const std::string& value, std::vector<std::string> arguments) {
        std::vector<std::string> words = berth.command("berth", arguments),
                                 shell{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
        words.insert(words.begin() + 2, "BERTH_PLAN=" + value);
        shell.insert(shell.end(), words.begin(), words.end());
        return as_user([&] { return output_of(shell); }).text;
    };
    using Catch::Contains;
    CHECK_THAT(said("1", {"run", berth.image, "/bin/inside"}), Contains("berth: WHAT ") && Contains("\nberth: bind ") &&
                                                                   Contains("\ninside ") && Catch::EndsWith("|0"));
    CHECK_THAT(said("1", {"run", "--name", "planned", berth.image, "/bin/inside"}),
               Contains("berth: WHAT ") && Contains("\ninside ") && Catch::EndsWith("|0"));
    CHECK_THAT(said("no", {"run", berth.image, "/bin/inside"}), Catch::StartsWith("inside ") && Catch::EndsWith("|0"));
    CHECK_THAT(said("x", {"run", berth.image, "/bin/inside"}),
               Contains("BERTH_PLAN=x: write 1") && Catch::EndsWith("|125"));
}

TEST_CASE("libraries of the driver are there, linked, and known to the loader; parameters are rewritten",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    FakeHost host;
    eight(host, false);
    const std::string folder = "/usr/lib/" MACHINE_TRIPLET "/";
    ContainerImage image = image_of(
        {},
        {{"/etc/debian_version", "12\n"}, {folder + "deep/file", "x"}, {folder + "libcuda.so.1", "the image's own"}});
    plan::ContainerEdits made =
        asked(host, hooks::ServedRootfs(image.index, image.layers), {"NVIDIA_VISIBLE_DEVICES=0"}, {});
    plan::Plan plan = plan_on(host, made);
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), {});
        return run_task(container, [&] {
            std::string cached;
            for (const plan::CachedLibrary& library :
                 parse_loader_cache(slurp("/etc/ld.so.cache"), "cache").libraries)
                if (library.name.starts_with("libcuda")) cached += library.path + " ";
            return in_order({slurp(folder + "libcuda.so.1"), std::filesystem::read_symlink(folder + "libcuda.so"),
                             cached, slurp("/usr/bin/nvidia-smi"), write_to("/usr/bin/nvidia-smi", "x"),
                             slurp("/proc/driver/nvidia/params")});
        });
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "libcuda.so.570.86.15 libcuda.so.1 /usr/lib/" MACHINE_TRIPLET "/libcuda.so.570.86.15 "
          "/usr/lib/" MACHINE_TRIPLET "/libcuda.so.1 "
          "/usr/lib/" MACHINE_TRIPLET "/libcuda.so  smi "
          "Read-only file system ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 0\nDeviceFileUID: 0\n");
}

TEST_CASE("berth devices lists what a node has, what a container gets, and why not the rest", "[kernel][hooks]") {
    NEED_CONTAINERS();
    SiteScene berth;
    FakeHost host;
    two_of_eight(host);
    give_to_user(host);
    berth.prepare = [&] { show_proc_of(host); };
    std::string site = cat("[devices]\ndevice_root = \"", host.path(), "\"\n");
    const std::vector<std::string> second = {"NVIDIA_VISIBLE_DEVICES=1"};
    Outcome text = berth.berth(site, {"devices"}, second), json = berth.berth(site, {"devices", "--json"}, second);
    using Catch::Contains;
    CHECK_THAT(text.text, Catch::StartsWith("FAMILY   DEVICE ") && Catch::EndsWith("|0") &&
                              Contains("\nnvidia: driver 570.86.15, CUDA up to 12.8\n") &&
                              Contains("\nnvidia: for a container with NVIDIA_VISIBLE_DEVICES=1\n"));
    auto row = [](const std::string& end) { return Catch::Matches("(.|\n)*\nnvidia   " + end + "\n(.|\n)*"); };
    CHECK_THAT(text.text, row("nvidia5 .* 0000:7b:00.0  yes   yes        " + gpu_uuid(5)));
    CHECK_THAT(text.text, row("nvidia3 .* yes   no         NVIDIA_VISIBLE_DEVICES does not name it"));
    CHECK_THAT(text.text, row("nvidia0 .* no    no         this process may not open /dev/nvidia0, .*"));
    CHECK_THAT(json.text, Contains(R"({"name":"nvidia5","what":"NVIDIA H100 80GB HBM3","id":")" + gpu_uuid(5) +
                                   R"(","bus":"0000:7b:00.0","nodes":["/dev/nvidia5"],"open":true,"usable":true,)"
                                   R"("container":true,"reason":""})") &&
                              Contains(R"("open":true,"usable":true,"container":false,)"
                                       R"("reason":"NVIDIA_VISIBLE_DEVICES does not name it"})") &&
                              Contains(R"({"family":"cdi","about":"","asked":"","error":"","notes":[)"));
}
