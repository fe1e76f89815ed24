// What berth.conf(5) says of keys that only a container shows: devices, and the memory of the file server.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

std::string site_devices(const std::string& line) { return "[devices]\n" + line + "\n"; }

/// Gives the node two RDMA adapters, of which the user may open the first.
void add_adapters(const SiteScene& scene) {
    for (const char* path : {"/dev", "/sys/class"}) scene.open_up(path);
    std::filesystem::create_directory("/dev/infiniband");
    for (const char* number : {"0", "1"}) {
        std::string folder = cat("/sys/class/infiniband_verbs/uverbs", number);
        std::filesystem::create_directories(folder);
        sys::write_all(sys::open_file(folder + "/ibdev", O_WRONLY | O_CREAT, 0644).get(), cat("mlx5_", number, "\n"),
                       "ibdev");
    }
    std::filesystem::create_symlink("/dev/zero", "/dev/infiniband/uverbs0");
    std::filesystem::create_symlink("/dev/no-such-device", "/dev/infiniband/uverbs1");
}

/// Asks for all adapters, on a node whose limit of locked memory deserves no warning.
const std::vector<std::string> asks_for_adapters = {"MELLANOX_VISIBLE_DEVICES=all",
                                                    "SLURM_RLIMIT_MEMLOCK=18446744073709551615"};

/// The line of /proc/self/PATH that begins with `name`, as a number; its server's root is the container's.
uint64_t number_in(const StartedContainer& container, const std::string& path, std::string_view name) {
    Fd file = sys::open_at(container.proc.get(), "self/" + path, O_RDONLY);
    for (const std::string& line : split(sys::read_all(file.get(), 1 << 16, path), '\n'))
        if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
    throw Error(cat("looking for ", name, " in ", path));
}

/// The most that the server has had, in kilobytes: it gives back what it keeps.
uint64_t memory_of_server(const StartedContainer& container) { return number_in(container, "status", "VmHWM:"); }

/// How often threads of the server have waited for something.
uint64_t sleeps_of_server(const StartedContainer& container) {
    uint64_t out = 0;
    Fd tasks = sys::open_at(container.proc.get(), "self/task", O_RDONLY | O_DIRECTORY);
    for (const std::string& thread : sys::list_directory(tasks.get(), "the server's threads"))
        out += number_in(container, "task/" + thread + "/status", "voluntary_ctxt_switches:");
    return out;
}

}  // namespace

TEST_CASE("berth.conf(5): devices.rdma decides which adapters containers get", "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    scene.prepare = [&] { add_adapters(scene); };
    auto nodes = [&](const char* setting, const std::vector<std::string>& job) {
        Outcome seen = scene.shell(site_devices(cat("rdma = \"", setting, "\"")), "echo /dev/infiniband/*", job);
        return seen.error + seen.text;
    };
    const std::string none = "/dev/infiniband/*\n|0", first = "/dev/infiniband/uverbs0\n|0";
    CHECK(nodes("auto", {}) == first);
    CHECK(nodes("auto", {"MELLANOX_VISIBLE_DEVICES=none"}) == none);
    CHECK(nodes("asked", {}) == none);
    CHECK(nodes("asked", asks_for_adapters) == first);
    CHECK(nodes("off", asks_for_adapters) == none);
}

TEST_CASE("berth.conf(5): devices.cdi gives every container its devices, beside those of the job", "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    auto spec = [](const char* kind, const char* value) {
        return cat(R"({"cdiVersion":"0.5.0","kind":")", kind, R"(/b","devices":[{"name":"x","containerEdits":)",
                   R"({"env":["FROM_)", kind[0], "=", value, R"("]}}]})");
    };
    for (const char* name : {"first", "second"}) scene.folder.directory(name);
    scene.folder.file("first/a.json", spec("a.com", "first"));
    scene.folder.file("first/c.json", spec("c.com", "job"));
    scene.folder.file("second/a.json", spec("a.com", "second"));
    auto said = [&](const std::string& site, const std::vector<std::string>& job) {
        Outcome seen = scene.shell(site, "echo $FROM_a-$FROM_c", job);
        return seen.error + seen.text;
    };
    std::string first = scene.folder / "first", second = scene.folder / "second",
                one = site_devices(cat("cdi = \"a.com/b=x\"\ncdi_folders = \"", first, "\""));
    CHECK(said(one, {}) == "first-\n|0");
    CHECK(said(one, {"BERTH_DEVICES=c.com/b=x"}) == "first-job\n|0");
    // A specification in a later folder overrides one in an earlier folder.
    CHECK(said(site_devices(cat("cdi = \"a.com/b=x\"\ncdi_folders = \"", first, " ", second, "\"")), {}) ==
          "second-\n|0");
    CHECK(said(site_devices(cat("cdi_folders = \"", first, "\"")), {}) == "-\n|0");
    CHECK_THAT(said(site_devices(cat("cdi = \"a.com/b=y\"\ncdi_folders = \"", first, "\"")), {}),
               StartsWith("berth: CDI device a.com/b=y: no specification of this node has it") && EndsWith("|125"));
}

TEST_CASE("berth.conf(5): devices.disabled turns a family off, whatever asks for it", "[kernel][site]") {
    NEED_CONTAINERS();
    SiteScene scene;
    scene.hooks = {{"a", "echo '{\"env\":[\"OF_SITE=yes\"]}'\n"}};
    scene.prepare = [&] { add_adapters(scene); };
    auto said = [&](const char* disabled) {
        Outcome seen = scene.shell(site_devices(cat("disabled = \"", disabled, "\"")),
                                   "echo $OF_SITE /dev/infiniband/*", asks_for_adapters);
        return seen.error + seen.text;
    };
    CHECK(said("") == "yes /dev/infiniband/uverbs0\n|0");
    CHECK(said("rdma") == "yes /dev/infiniband/*\n|0");
    CHECK(said("site rdma") == "/dev/infiniband/*\n|0");
}

TEST_CASE("berth.conf(5): mount.cache_size is what the file server keeps of decompressed data", "[kernel][site]") {
    NEED_CONTAINERS();
    constexpr size_t size = 48 << 20;
    // Compressible, so that it is not kept as it lies in the file.
    std::string content;
    for (uint64_t i = 0; content.size() < size; ++i) content += cat("line ", i * 2654435761U % 1000003, "\n");
    auto grown = [&](uint64_t cache) {
        ContainerImage image = make_image([&](squash::LayerWriter& writer) {
            fill_sample(writer);
            add_file(writer, "large", content);
        });
        Outcome seen = as_user([&] {
            plan::Site site;
            site.mount.cache_size = cache;
            StartedContainer container = start_container(bare_plan(), std::move(image), site);
            uint64_t before = memory_of_server(container);
            run_task(container, [] { return cat(slurp("/large").size()); });
            return cat(memory_of_server(container) - before);
        });
        CHECK(seen.error == "");
        return std::stol("0" + seen.text);
    };
    long small = grown(2 << 20), large = grown(64 << 20);
    CHECK(small < 24'000);
    CHECK(large > 40'000);
}

TEST_CASE("berth.conf(5): mount.busy_poll of 0 turns polling off: the file server sleeps before a request",
          "[kernel][site]") {
    NEED_CONTAINERS();
    constexpr unsigned requests = 2000;
    // Shorter than the server polls, and long enough for it to fall asleep.
    static constexpr auto pause = std::chrono::microseconds(50);
    ContainerImage image = make_image(fill_sample);
    Outcome seen = as_user([&] {
        plan::Site site;
        site.mount.busy_poll = 0;
        StartedContainer container = start_container(bare_plan(), std::move(image), site);
        auto asleep_before = [&](unsigned round) {
            uint64_t before = sleeps_of_server(container);
            run_task(container, [round] {
                // A name that nobody has asked for is a request.
                unsigned found = 0;
                for (unsigned i = 0; i < requests; ++i) {
                    found += ::access(cat("/empty/", round, '.', i).c_str(), F_OK) == 0;
                    for (auto end = std::chrono::steady_clock::now() + pause; std::chrono::steady_clock::now() < end;) {
                    }
                }
                return cat(found);
            });
            return sleeps_of_server(container) - before;
        };
        std::array<uint64_t, 5> rounds{};
        for (unsigned round = 0; round < rounds.size(); ++round) rounds[round] = asleep_before(round);
        std::ranges::sort(rounds);
        return cat(rounds[rounds.size() / 2]);
    });
    CHECK(seen.error == "");
    // Nearly all of them, on a busy machine too. With polling a hundredth; on a busy machine that is disturbed.
    CHECK(std::stoul("0" + seen.text) > requests / 2);
}

TEST_CASE("berth.conf(5): mount.prefetch keeps a list of what containers read, whatever is in it",
          "[kernel][site][prefetch]") {
    NEED_CONTAINERS();
    constexpr int files = 200;
    NamedScene scene([](squash::LayerWriter& writer) {
        for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
        writer.add_directory("usr", {});
        for (int number = 0; number < files; ++number) add_file(writer, cat("many/f", number), cat(number, "\n"));
    });
    scene.folder.directory("store");
    const std::string lists = scene.folder / "store/prefetch";
    std::string right;
    for (int number = 0; number < files; ++number) right += cat(number, "\n");
    auto read_all = [&](const std::string& setting, const std::string& pattern) {
        std::vector<std::string> words = scene.command(
            "berth", {"run", "--mount", "/usr:/usr:ro", scene.image, "/usr/bin/bash", "--norc", "-c",
                      cat("cat $(printf '/many/f%d\\n' ", pattern, ")")});
        words.insert(words.begin() + 2, cat("BERTH_MOUNT_PREFETCH=", setting));
        return as_user([&] { return output_of(words); }).text;
    };
    auto list = [&] {
        std::vector<std::string> out;
        if (std::filesystem::exists(lists))
            for (const auto& entry : std::filesystem::directory_iterator(lists)) out.push_back(entry.path());
        return out;
    };
    CHECK(read_all("false", "{0..199}") == right + "|0");
    CHECK(list().empty());
    // Too little to be worth it.
    CHECK(read_all("true", "{0..2}") == "0\n1\n2\n|0");
    CHECK(list().empty());
    CHECK(read_all("true", "{0..199}") == right + "|0");
    REQUIRE(list().size() == 1);
    CHECK(std::filesystem::file_size(list().front()) > files * 12);
    CHECK(read_all("true", "{0..199}") == right + "|0");
    const std::vector<std::string> made_up{"", "berthpf1", std::string(1 << 20, '\xff'), std::string(8 << 20, 'x')};
    for (const std::string& content : made_up) {
        Outcome written = as_user([&] {
            const std::string path = list().front();
            std::filesystem::remove(path);
            sys::write_all(sys::open_file(path, O_WRONLY | O_CREAT, 0600).get(), content, "a list");
            return path;
        });
        CHECK(written.error == "");
        CHECK(read_all("true", "{0..199}") == right + "|0");
    }
}
