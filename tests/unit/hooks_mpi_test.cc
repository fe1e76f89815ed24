#include "tests/fixtures/mpi_scenes.hh"

#include "tests/catch.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

const DeviceMaker& maker() {
    for (const DeviceMaker* one : device_makers())
        if (one->vendor == std::string("mpi")) return *one;
    throw std::runtime_error("there is no maker for MPI");
}

plan::ContainerEdits made_of(const MpiScene& scene, const plan::Site& site, const std::vector<std::string>& job) {
    FakeHost host;
    fill_node(host, scene);
    FakeImage image(scene.image);
    std::vector<plan::ContainerEdits> before;
    return maker().make({host, image, site, scene.variables, job, before});
}

/// A scene's site, where its job has turned the hook on or the site has.
plan::Site site_of(const MpiScene& scene) {
    plan::Site site;
    site.mpi = mpi_settings(scene);
    if (scene.asked) site.origins["mpi.replace"] = {"", 0, "BERTH_MPI_REPLACE", true};
    return site;
}

const MpiScene& scene_called(const std::string& name) {
    for (const MpiScene& scene : mpi_scenes())
        if (scene.name == name) return scene;
    throw std::runtime_error("there is no such scene");
}

}  // namespace

TEST_CASE("mpi: each scene has exactly its mounts, or its reason and nothing else", "[hooks][mpi]") {
    for (const MpiScene& scene : mpi_scenes()) {
        INFO(scene.name);
        FakeHost host;
        fill_node(host, scene);
        FakeImage image(scene.image);
        plan::ContainerEdits made = mpi_hook(host, image, mpi_settings(scene), scene.variables, scene.asked);
        CHECK(mpi_edits_text(made, host.path()) == scene.edits);
        CHECK(made.environment.empty());
        CHECK_THAT((made.warnings.empty() ? "" : made.warnings[0]), Catch::Contains(scene.warning));
        CHECK(made.warnings.size() == (scene.warning.empty() ? 0 : 1));
    }
}

TEST_CASE("mpi: without the site's or the job's word nothing is changed, looked for or said", "[hooks][mpi]") {
    for (const MpiScene& scene : mpi_scenes()) {
        INFO(scene.name);
        plan::Site site = site_of(scene);
        site.mpi.replace = plan::Site().mpi.replace;
        plan::ContainerEdits made = made_of(scene, site, {});
        CHECK((made.edits.empty() && made.environment.empty() && made.warnings.empty()));
    }
    CHECK_FALSE(plan::Site().mpi.replace);
}

TEST_CASE("mpi: the first node of a step tells why the image's MPI stays", "[hooks][mpi]") {
    MpiScene scene = scene_called("Open MPI in the image");
    plan::Site site = site_of(scene);
    CHECK(made_of(scene, site, {}).warnings.size() == 1);
    CHECK(made_of(scene, site, {"SLURM_NODEID=0"}).warnings.size() == 1);
    CHECK(made_of(scene, site, {"SLURM_NODEID=1"}).warnings.empty());
}

TEST_CASE("mpi: a job that asks where the site lists nothing is told so", "[hooks][mpi]") {
    MpiScene scene = scene_called("the same version");
    scene.asked = true;
    plan::Site site = site_of(scene);
    site.mpi.libraries.clear();
    plan::ContainerEdits made = made_of(scene, site, {});
    REQUIRE(made.warnings.size() == 1);
    CHECK_THAT(made.warnings[0], Catch::Contains("mpi.libraries of berth.conf names none of the node"));
    site.origins.clear();
    CHECK(made_of(scene, site, {}).warnings.empty());
}

TEST_CASE("mpi: the plan tells both versions, and the site is who chose the files", "[hooks][mpi]") {
    MpiScene scene = scene_called("Debian's names in the image");
    plan::ContainerEdits made = made_of(scene, site_of(scene), {});
    REQUIRE(made.edits.size() == 3);
    CHECK(made.edits[0].reason == "the node's MPI, 12.4.1, in place of the image's, 12.2.2");
    CHECK(made.edits[0].origin.text() == "hook mpi");
    CHECK(made.edits[0].origin.chooser() == plan::Origin::Chooser::site);
    CHECK(std::get<plan::Mount>(made.edits[0].action).read_only);
}

TEST_CASE("mpi: a device among the mounts is one, and only where the step may open it", "[hooks][mpi]") {
    MpiScene scene = scene_called("the same version");
    plan::MpiSettings settings = mpi_settings(scene);
    settings.mounts = {"/dev/cxi0", "/dev/cxi1"};
    FakeHost host;
    fill_node(host, scene);
    for (unsigned i : {0, 1}) host.node(cat("/dev/cxi", i), 240, i);
    host.deny("/dev/cxi1");
    FakeImage image(scene.image);
    plan::ContainerEdits made = mpi_hook(host, image, settings, {}, false);
    CHECK(joined(targets_below(made, "/dev")) == "cxi0");
    CHECK(std::get<plan::Mount>(made.edits.back().action).device);
}

TEST_CASE("mpi: what berth doctor and berth devices say of the site's list", "[hooks][mpi][doctor]") {
    using Level = DeviceStatus::Level;
    MpiScene scene = scene_called("the same version");
    FakeHost host;
    fill_node(host, scene);
    plan::Site site;
    CHECK(maker().status(host, site).text == "containers have their image's own");
    CHECK(maker().list({host, site, {}}).about == "");
    site.mpi = mpi_settings(scene);
    site.mpi.replace = false;
    DeviceStatus status = maker().status(host, site);
    CHECK((status.level == Level::note && status.subject == "MPI"));
    CHECK(status.text ==
          "/opt/mpi/lib/libmpi.so.12.2.1 in place of the image's for jobs with BERTH_MPI_REPLACE=true");
    site.mpi.replace = true;
    CHECK(maker().status(host, site).level == Level::ok);
    CHECK_THAT(maker().list({host, site, {}}).about, Catch::Contains("in place of the image's, where it fits"));
    site.mpi.dependencies = {"/opt/none/libcxi.so.1"};
    status = maker().status(host, site);
    CHECK(status.level == Level::warning);
    CHECK_THAT(status.text,
               Catch::Contains("mpi.dependencies of berth.conf: /opt/none/libcxi.so.1 is not on this node"));
    CHECK(maker().list({host, site, {}}).notes.size() == 1);
}

TEST_CASE("mpi: what counts as a function that programs call", "[hooks][mpi]") {
    for (const char* name :
         {"MPI_Init", "PMPI_Init", "mpi_init_", "pmpi_init__", "_ZN3MPI4InitEv", "_ZNK3MPI4Comm4DupEv"})
        CHECK(is_mpi_function(name));
    for (const char* name : {"MPIX_Query", "MPIR_Err", "MPID_Init", "main", "_ZN4MPIX", "MPII_x"})
        CHECK_FALSE(is_mpi_function(name));
}

TEST_CASE("elf: a library says its name, needs, versions and functions", "[hooks][mpi][elf]") {
    ElfLibrary written{.soname = "libx.so.1",
                       .needed = {"libc.so.6", "liby.so.2"},
                       .versions = {"X_1", "X_2"},
                       .functions = {"MPI_A", "other"},
                       .wanted = {{"libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.34"}}, {"liby.so.2", {"Y_1"}}},
                       .run_path = "/a:/b"};
    std::string bytes = written.bytes();
    ReadPart read = [&](uint64_t offset, size_t size) {
        return offset < bytes.size() ? bytes.substr(offset, size) : std::string();
    };
    auto seen = read_shared_object(read);
    REQUIRE(seen);
    CHECK((seen->soname == written.soname && seen->needed == written.needed && seen->machine == written.machine));
    CHECK(seen->run_path == std::vector<std::string>{"/a", "/b"});
    CHECK(seen->versions == std::set<std::string>{"X_1", "X_2"});
    CHECK(seen->wanted == std::map<std::string, std::set<std::string>>{{"libc.so.6", {"GLIBC_2.2.5", "GLIBC_2.34"}},
                                                                       {"liby.so.2", {"Y_1"}}});
    CHECK(defined_symbols(read, is_mpi_function) == std::set<std::string>{"MPI_A"});
    bytes[EI_CLASS] = ELFCLASS32;
    CHECK_FALSE(read_shared_object(read));
}

TEST_CASE("elf: the C library of this machine is read as it is", "[hooks][mpi][elf]") {
    DirectoryRootfs root("/");
    ImageLibraries libraries(root, {});
    const std::vector<Library>& found = libraries.find("libc.so.6");
    REQUIRE(!found.empty());
    const SharedObject& object = found[0].object;
    CHECK(object.soname == "libc.so.6");
    CHECK((object.versions.contains("GLIBC_2.17") && object.versions.contains("GLIBC_PRIVATE")));
    CHECK_FALSE(object.versions.contains("libc.so.6"));
    ReadPart read = [&](uint64_t offset, size_t size) { return root.read(found[0].file, offset, size); };
    auto is_malloc = [](std::string_view name) { return name == "malloc" || name == "no_such_function"; };
    CHECK(defined_symbols(read, is_malloc) == std::set<std::string>{"malloc"});
    Host node;
    CHECK(node.resolved("/lib/../lib") == root.resolved("/lib/../lib"));
    CHECK(root.resolved("/") == "/");
    CHECK_FALSE(root.resolved("/no/such/file"));
}
