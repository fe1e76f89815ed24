#include "runtime/base/sys.hh"
#include "runtime/cli/plan_json.hh"
#include "runtime/plan/plan_text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/gpu_scenes.hh"
#include "tests/fixtures/machine.hh"

using namespace berth;
using namespace berth::plan;

namespace {

/// Make them anew with BERTH_GOLDEN=write after looking at the difference.
void check_golden(const std::string& name, const std::string& text) {
    std::string path = "tests/fixtures/" + name;
    if (std::string golden = getenv("BERTH_GOLDEN") ? getenv("BERTH_GOLDEN") : ""; golden == "write")
        sys::write_all(sys::open_file(path, 01101, 0644).get(), text, name);
    CHECK(text == sys::read_file(path));
}

}  // namespace

TEST_CASE("plan text: the whole plan, as checked in", "[cli]") {
    Caller caller;
    caller.uid = caller.gid = 2001;
    caller.user = caller.group = "alice";
    caller.home = "/home/alice";
    caller.shell = "/bin/bash";
    caller.cwd = "/home/alice";
    Request request;
    request.mounts = parse_mounts("./in:/data:ro,tmpfs:/scratch,umount:/etc/localtime,./d.sqsh:/set:squashfs");
    request.env = {"FOO"};
    request.writable = false;
    ImageConfig image;
    image.env = {"PATH=/usr/bin:/bin", "BAD=\x1b[31m"};
    image.entrypoint = {"/entry"};
    image.cmd = {"serve", "--all"};
    image.working_dir = "/srv";
    std::string text = plan_text(make_plan(request, caller, {}, {}, {host_paths(), {}, {}, {}}, image));
    check_golden("plan.golden", text);
}

TEST_CASE("plan text: devices, as a table and as JSON", "[cli][hooks]") {
    fixtures::FakeHost host;
    fixtures::sliced(host);
    host.allow_only("/dev/nvidia-caps/nvidia-cap", {120, 121});
    fixtures::FakeImage image;
    image.file("/etc/debian_version", "12\n");
    ContainerEdits made = fixtures::asked(host, image, {"NVIDIA_VISIBLE_DEVICES=all"}, {});
    // As on every node with amd64's libraries.
    auto usual = [](std::string& path) {
        if (size_t at = path.find(MACHINE_TRIPLET); at != path.npos)
            path.replace(at, std::string(MACHINE_TRIPLET).size(), "x86_64-linux-gnu");
    };
    for (Edit& edit : made.edits) {
        if (auto* mount = std::get_if<Mount>(&edit.action)) {
            if (mount->source.starts_with(host.path())) mount->source.erase(0, host.path().size());
            usual(mount->source), usual(mount->target);
        }
        if (auto* link = std::get_if<Symlink>(&edit.action)) usual(link->path);
    }
    Caller caller;
    caller.uid = caller.gid = 2001;
    Plan plan = make_plan({}, caller, {}, {}, {}, {}, {made});
    check_golden("plan-gpu.golden", plan_text(plan));
    check_golden("plan-gpu.json", cli::plan_json(plan, "sha256:0"));
}

TEST_CASE("plan text: what the image or an option sets is not said to be removed", "[cli]") {
    Request request;
    request.env = {"LC_ALL"};
    ImageConfig image;
    image.env = {"LANG=C.UTF-8"};
    std::string removed;
    for (const auto& row : plan_rows(make_plan(request, {}, {}, {}, {host_paths(), {}, {}, {}}, image)))
        if (row[4] == "removed: the host's locale") removed += row[1] + " ";
    CHECK(removed == "LANGUAGE ");
}
