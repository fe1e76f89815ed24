// What of a driver's files each capability brings, for the drivers of tests/fixtures/drivers.
#include "hooks/nvidia/files.hh"

#include <cstdlib>
#include <sstream>

#include "hooks/nvidia/names.hh"
#include "tests/catch.hh"
#include "tests/fixtures/container_edits.hh"
#include "tests/fixtures/driver_manifest.hh"
#include "tests/fixtures/gpu_scene.hh"

using namespace berth;
using namespace berth::hooks;
using namespace berth::fixtures;

namespace {

const std::vector<std::string> capabilities = {"utility", "compute", "video", "graphics", "display", "ngx"};

/// What a container has of a driver's files.
struct Taken {
    std::map<std::string, std::string> mounts;  ///< target -> file of the node, with links followed
    std::map<std::string, std::string> links;   ///< path -> what it says
    std::set<std::string> loaded;               ///< names that the loader finds
};

/// `below`: the driver's root.
Taken taken(const FakeHost& host, const hooks::Rootfs& image, const std::string& capability,
            const std::string& below = {}) {
    NvidiaRequest request =
        nvidia_request({}, {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=" + capability});
    plan::ContainerEdits made = nvidia_hook(host, image, request, {false, {below, ""}}, {});
    Taken out;
    for (const plan::Edit& edit : made.edits) {
        if (const auto* link = std::get_if<plan::Symlink>(&edit.action)) out.links[link->path] = link->target;
        if (const auto* added = std::get_if<plan::LoaderLibraries>(&edit.action))
            for (const plan::CachedLibrary& library : added->libraries) out.loaded.insert(library.name);
        const auto* mount = std::get_if<plan::Mount>(&edit.action);
        if (!mount || !mount->source.starts_with(host.path() + "/")) continue;
        std::string source = mount->source.substr(host.path().size());
        if (!source.starts_with("/dev/") && !source.starts_with("/proc/"))
            out.mounts[mount->target] = host.resolved(source).value_or("missing: " + source);
    }
    return out;
}

/// A line for each file of the driver and each link, with the capabilities that bring it.
std::string table_of(const FakeHost& host, const DriverManifest& driver) {
    FakeImage image;
    std::map<std::string, std::string> by, links;
    for (const std::string& path : driver.files()) by[path];
    for (const std::string& capability : capabilities) {
        Taken got = taken(host, image, capability);
        for (const auto& [target, source] : got.mounts)
            by[source + (target == source ? "" : " at " + target)] += " " + capability;
        for (const auto& [path, target] : got.links) links[cat(path, " -> ", target)] += " " + capability;
    }
    // What stands in the table with a place of its own is not left out.
    for (const std::string& path : driver.files())
        if (auto next = by.upper_bound(path + " at "); next != by.end() && next->first.starts_with(path + " at "))
            by.erase(path);
    std::string out;
    for (const auto& list : {by, links})
        for (const auto& [what, capability] : list) out += cat(what, ":", capability.empty() ? " -" : capability, "\n");
    return out;
}

std::string text_of(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

}  // namespace

TEST_CASE("driver files: of each driver, what each capability brings and what none does", "[hooks][nvidia][driver]") {
    REQUIRE(DriverManifest::all().size() >= 11);
    for (const std::string& name : DriverManifest::all()) {
        INFO(name);
        DriverManifest driver(name);
        FakeHost host;
        driver.install(host);
        std::string table = table_of(host, driver), golden = "tests/fixtures/drivers/" + name + ".golden";
        if (std::string word = std::getenv("BERTH_GOLDEN") ? std::getenv("BERTH_GOLDEN") : ""; word == "write")
            std::ofstream(golden) << table;
        CHECK(table == text_of(golden));
    }
}

TEST_CASE("driver files: what is given needs nothing of the driver that is not given", "[hooks][nvidia][driver]") {
    for (const std::string& name : DriverManifest::all()) {
        DriverManifest driver(name);
        FakeHost host;
        driver.install(host);
        FakeImage image;
        std::set<std::string> files;
        for (const std::string& path : driver.files()) files.insert(path.substr(path.rfind('/') + 1));
        for (const std::string& capability : capabilities) {
            Taken got = taken(host, image, capability);
            for (const auto& words : driver.of("needs")) {
                bool given = std::ranges::any_of(
                    got.mounts, [&](const auto& mount) { return mount.second.ends_with("/" + words.at(1)); });
                for (size_t i = 2; given && i < words.size(); ++i) {
                    INFO(name << ", " << capability << ": " << words[1] << " needs " << words[i]);
                    CHECK(got.loaded.contains(words[i]));
                }
            }
        }
        Taken got = taken(host, image, "all");
        for (const auto& words : driver.of("opens"))
            for (size_t i = 2; i < words.size(); ++i) {
                INFO(name << ": " << words[1] << " may open " << words[i]);
                // A name for building programs, which a container has where the node has it.
                CHECK((got.loaded.contains(words[i]) || words[i].ends_with(".so")));
            }
    }
}

TEST_CASE("driver files: below a driver's root there is the same, wherever its links lead", "[hooks][nvidia][driver]") {
    for (const std::string& name : DriverManifest::all()) {
        INFO(name);
        DriverManifest driver(name);
        FakeHost plain, below;
        driver.install(plain);
        driver.install(below, "/run/nvidia/driver");
        FakeImage image;
        Taken here = taken(plain, image, "all"), there = taken(below, image, "all", "/run/nvidia/driver");
        CHECK(here.links == there.links);
        CHECK(here.loaded == there.loaded);
        CHECK(here.mounts.size() == there.mounts.size());
        for (const auto& [target, source] : here.mounts) {
            INFO(target);
            CHECK(there.mounts[target] == "/run/nvidia/driver" + source);
        }
    }
}

TEST_CASE("driver files: each name that is looked for occurs in a driver", "[hooks][nvidia][driver]") {
    std::string paths;
    for (const std::string& name : DriverManifest::all()) {
        DriverManifest driver(name);
        for (const char* kind : {"elf", "file", "names", "link"})
            for (const auto& words : driver.of(kind)) paths += words.at(1) + "\n";
    }
    auto occurs = [&](const std::string& text) {
        INFO(text);
        CHECK(paths.find(text) != std::string::npos);
    };
    for (const DriverPart& part : driver_libraries()) occurs(cat("/", part.name, ".so."));
    for (const DriverPart& part : companion_libraries()) occurs(cat("/", part.name, "\n"));
    for (const DriverPart& part : driver_programs()) occurs(cat("bin/", part.name, "\n"));
    for (const auto& parts : {driver_sockets(), driver_configurations()})
        for (const DriverPart& part : parts) occurs(cat(part.name, "\n"));
}

TEST_CASE("driver files: a root that is not there has no driver", "[hooks][nvidia][driver]") {
    FakeHost host;
    DriverManifest("550-x86_64").install(host);
    FakeImage image;
    CHECK_THROWS_WITH(taken(host, image, "all", "/run/nvidia/none"),
                      Catch::Contains("there is no libcuda or libnvidia-ml below /run/nvidia/none on this node"));
}

TEST_CASE("driver files: a library's own path in a configuration leads to it in the container",
          "[hooks][nvidia][driver]") {
    DriverManifest driver("580-x86_64");
    FakeHost host;
    driver.install(host);
    FakeImage debian(std::vector<ImageFile>{{"/etc/debian_version", "12\n"}}), fedora;
    const std::string path = "/usr/lib64/libGLX_nvidia.so.0";
    CHECK(taken(host, debian, "graphics").links.at(path) == library_place(debian).folder + "/libGLX_nvidia.so.0");
    CHECK(taken(host, fedora, "graphics").links.at(path) == "libGLX_nvidia.so.580.142");
    // What is no library of the driver's is nobody's business.
    host.file("/usr/share/vulkan/icd.d/nvidia_icd.x86_64.json", R"({"library_path": "/usr/lib64/libother.so.1"})");
    CHECK_FALSE(taken(host, debian, "graphics").links.contains("/usr/lib64/libother.so.1"));
}

TEST_CASE("driver files: paths of libraries in JSON", "[hooks][nvidia][driver]") {
    using Paths = std::vector<std::string>;
    CHECK(parse_library_paths(R"({"ICD": {"library_path": "/usr/lib64/libGLX_nvidia.so.0", "api_version": "1.4"}})") ==
          Paths{"/usr/lib64/libGLX_nvidia.so.0"});
    CHECK(parse_library_paths(R"({"layers": [{"library_path": "/a/libx.so"}, {"library_path":"/b/liby.so.1"}]})") ==
          Paths{"/a/libx.so", "/b/liby.so.1"});
    for (const char* none : {"", "\"", R"({"library_path": "libGLX_nvidia.so.0"})", R"({"a": "/usr/share/nvidia"})",
                             R"({"a": "/usr/../libx.so"})", R"({"a": "/a\/libx.so"})", "/usr/lib64/libx.so"})
        CHECK(parse_library_paths(none).empty());
}

TEST_CASE("driver files: the socket of IMEX is where its configuration says", "[hooks][nvidia][driver]") {
    const std::string usual = "# comment\nIMEX_CMD_ENABLED=1\n IMEX_CMD_UNIX_DOMAIN_PATH = /run/imex//imex.sock \n";
    CHECK(parse_imex_socket(usual) == "/run/imex/imex.sock");
    for (const char* none : {"", "IMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n",
                             "IMEX_CMD_ENABLED=0\nIMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n",
                             "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=\n",
                             "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=imex.sock\n",
                             "IMEX_CMD_ENABLED=1\n#IMEX_CMD_UNIX_DOMAIN_PATH=/run/imex.sock\n"})
        CHECK(parse_imex_socket(none).empty());
    FakeHost host;
    DriverManifest("580-aarch64").install(host);
    FakeImage image;
    auto has = [&](const char* capability, const std::string& path) {
        return taken(host, image, capability).mounts.contains(path);
    };
    host.file("/etc/nvidia-imex/config.cfg", usual);
    CHECK_FALSE(has("utility", "/run/imex/imex.sock"));
    CHECK(has("utility", "/etc/nvidia-imex/config.cfg"));
    host.file("/run/imex/imex.sock", "");
    CHECK(has("utility", "/run/imex/imex.sock"));
    CHECK_FALSE(has("compute", "/run/imex/imex.sock"));
    host.file("/etc/nvidia-imex/config.cfg", "IMEX_CMD_ENABLED=1\nIMEX_CMD_UNIX_DOMAIN_PATH=/proc/version\n");
    host.file("/proc/version", "");
    CHECK_FALSE(has("utility", "/proc/version"));
}

TEST_CASE("driver files: the services of a driver with a root of its own run there, or on the node",
          "[hooks][nvidia][driver]") {
    FakeHost host;
    const std::string root = "/run/nvidia/driver", socket = "/run/nvidia-persistenced/socket";
    DriverManifest("550-x86_64").install(host, root);
    FakeImage image;
    auto source = [&] { return taken(host, image, "utility", root).mounts[socket]; };
    CHECK(source().empty());
    host.file(socket, "");
    CHECK(source() == socket);
    host.file(root + socket, "");
    CHECK(source() == root + socket);
}

TEST_CASE("driver files: firmware is where the kernel looks for it, in that order", "[hooks][nvidia][driver]") {
    FakeHost host;
    DriverManifest driver("535-x86_64");
    driver.install(host);
    FakeImage image;
    const std::string file = cat("/nvidia/", driver.version(), "/gsp_ga10x.bin"), target = "/lib/firmware" + file;
    CHECK(taken(host, image, "utility").mounts[target] == target);
    host.file("/proc/sys/kernel/osrelease", "6.8.0-45-generic\n");
    host.file("/sys/module/firmware_class/parameters/path", "/srv/firmware\n");
    for (const char* place : {"/lib/firmware/6.8.0-45-generic", "/lib/firmware/updates",
                              "/lib/firmware/updates/6.8.0-45-generic", "/srv/firmware"}) {
        INFO(place);
        host.file(place + file, "firmware");
        CHECK(taken(host, image, "utility").mounts[target] == place + file);
    }
    host.file("/sys/module/firmware_class/parameters/path", "\n");
    CHECK(taken(host, image, "utility").mounts[target] == "/lib/firmware/updates/6.8.0-45-generic" + file);
}

TEST_CASE("driver files: the nodes that each capability brings", "[hooks][nvidia][driver]") {
    FakeHost host;
    DriverManifest("550-x86_64").install(host);
    FakeImage image;
    auto nodes = [&](const std::string& capability) {
        NvidiaRequest request =
            nvidia_request({}, {"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=" + capability});
        return joined(targets_below(nvidia_hook(host, image, request, {}, {}), "/dev"));
    };
    CHECK(nodes("utility") == "nvidia0 nvidiactl");
    CHECK(nodes("compute") == "nvidia-uvm nvidia-uvm-tools nvidia0 nvidiactl");
    CHECK(nodes("graphics") == "dri/renderD128 nvidia0 nvidiactl");
    CHECK(nodes("display") == "dri/renderD128 nvidia-modeset nvidia0 nvidiactl");
}
