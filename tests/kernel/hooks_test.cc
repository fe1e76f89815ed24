// What hooks plan, done in a real container as an ordinary user: a folder with fake devices stands for the node.
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::fixtures;

namespace {

/// A plan of hooks alone. The fake nodes are plain files, which may not be mounted as devices.
plan::Plan plan_on(const FakeHost& host, const plan::Additions& additions) {
    plan::Plan plan = bare_plan();
    plan.edits = {bind_of(host.path() + "/proc", "/proc"), bind_of(host.path() + "/sys", "/sys", true)};
    plan::Mount dev;
    dev.kind = plan::Mount::Kind::tmpfs;
    dev.target = "/dev";
    plan.edits.push_back({dev, "system", "a private /dev"});
    for (plan::Edit edit : additions.edits) {
        if (auto* mount = std::get_if<plan::Mount>(&edit.action)) mount->device = false;
        plan.edits.push_back(edit);
    }
    return plan;
}

/// The files and directories of the last level below a folder, as the scenes write them.
std::set<std::string> found_below(const std::string& folder) {
    std::set<std::string> out;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
        std::string name = entry.path().string().substr(folder.size() + 1);
        if (name.starts_with("gpus/") && entry.is_directory()) out.insert(name);
        if (entry.is_regular_file() && !name.starts_with("gpus/")) out.insert(name);
    }
    return out;
}

/// The fake nodes hold their own path: each must be the one of its name.
std::string wrong_nodes() {
    std::string out;
    for (const std::string& name : found_below("/dev"))
        if (slurp("/dev/" + name) != "/dev/" + name) out += name + " ";
    return out;
}

void fill_debian(squash::LayerWriter& writer) {
    fill_sample(writer);
    add_file(writer, "etc/debian_version", "12\n");
    for (const char* path : {"usr", "usr/lib", "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/deep"}) writer.add_directory(path, {});
    add_file(writer, "usr/lib/x86_64-linux-gnu/libcuda.so.1", "the image's own");
}

}  // namespace

TEST_CASE("each scene of GPUs has exactly its files in the container", "[kernel][hooks]") {
    NEED_CONTAINERS();
    for (const GpuScene& scene : gpu_scenes()) {
        INFO(scene.name);
        FakeHost host;
        scene.host(host);
        FakeImage image;
        plan::Additions additions = asked(host, image, scene.image, scene.job);
        Outcome seen = in_container(plan_on(host, additions), fill_sample, [] {
            return cat(nodes_text(found_below("/dev")), "|", proc_text(found_below("/proc/driver/nvidia")), "|", wrong_nodes());
        });
        CHECK(seen.error == "");
        CHECK(seen.text == cat(scene.nodes, "|", scene.proc, "|"));
    }
}

TEST_CASE("libraries of the driver are there, linked, and known to the loader; parameters are rewritten", "[kernel][hooks]") {
    NEED_CONTAINERS();
    FakeHost host;
    eight(host, false);
    host.file("/usr/bin/nvidia-smi", "smi");
    ContainerImage image = make_image(fill_debian);
    plan::Additions additions = asked(host, hooks::ServedRootfs(image.index, image.layers), {"NVIDIA_VISIBLE_DEVICES=0"}, {});
    plan::Plan plan = plan_on(host, additions);
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), {});
        return run_task(container, [] {
            const std::string folder = "/usr/lib/x86_64-linux-gnu/";
            std::string cached;
            for (const plan::CachedLibrary& library : plan::parse_loader_cache(slurp("/etc/ld.so.cache"), "cache").libraries)
                if (library.name.starts_with("libcuda")) cached += library.path + " ";
            return in_order({slurp(folder + "libcuda.so.1"), std::filesystem::read_symlink(folder + "libcuda.so"), cached, slurp("/usr/bin/nvidia-smi"),
                             write_to("/usr/bin/nvidia-smi", "x"), slurp("/proc/driver/nvidia/params")});
        });
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "libcuda.so.570.86.15 libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15 /usr/lib/x86_64-linux-gnu/libcuda.so.1 "
          "/usr/lib/x86_64-linux-gnu/libcuda.so  smi "
          "Read-only file system ResmanDebugLevel: 4294967295\nModifyDeviceFiles: 0\nDeviceFileUID: 0\n");
}

TEST_CASE("an image with musl has the folder of the libraries named for its loader", "[kernel][hooks]") {
    NEED_CONTAINERS();
    FakeHost host;
    eight(host, false);
    FakeImage image;
    image.file("/etc/alpine-release", "3.20\n");
    Outcome seen = in_container(plan_on(host, asked(host, image, {"NVIDIA_VISIBLE_DEVICES=0"}, {})), fill_sample,
                                [] { return slurp("/etc/ld-musl-x86_64.path") + slurp("/usr/lib64/libcuda.so.1"); });
    CHECK(seen.error == "");
    CHECK(seen.text == "/lib\n/usr/local/lib\n/usr/lib\n/usr/lib64\nlibcuda.so.570.86.15");
}
