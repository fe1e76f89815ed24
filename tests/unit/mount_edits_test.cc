// Edits of a root that another container has as well.
#include <fcntl.h>

#include <atomic>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/mount/rootfs/edits.hh"
#include "runtime/host/loader_cache.hh"
#include "tests/catch.hh"
#include "tests/fixtures/fake_host.hh"

using namespace berth;

namespace {

constexpr int rounds = 300;

/// One of two containers over `folder`, which start again and again, each with a library and a link of its own.
std::string start_often(const std::string& folder, const std::string& own) {
    plan::LoaderLibraries libraries;
    libraries.libraries = {{.flags = loader_flags(), .name = "libcuda.so.1", .path = own}};
    std::vector<plan::Edit> edits = {{libraries, "hook nvidia", "a test"},
                                     {plan::Symlink{"/etc/link", own, true}, "hook nvidia", "a test"}};
    try {
        mount::Root root(sys::open_file(folder, O_PATH | O_DIRECTORY));
        std::vector<mount::Source> sources(edits.size());
        for (int i = 0; i < rounds; ++i) mount::apply_edits(root, edits, sources);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// What a program of either would find wrong.
std::string trouble_in(const std::string& folder) try {
    LoaderCache cache = parse_loader_cache(sys::read_file(folder + "/etc/ld.so.cache", 1 << 20), "cache");
    if (cache.libraries.size() != 1) return "another count of libraries";
    char text[100];
    return ::readlink((folder + "/etc/link").c_str(), text, sizeof text) > 0 ? "" : "no link";
} catch (const Error& error) {
    return error.what();
}

}  // namespace

TEST_CASE("edits: while containers start over one root, its programs always find the loader's cache and links, whole",
          "[mount]") {
    fixtures::FakeFolder folder;
    folder.directory("/etc");
    std::string path = folder.path(), errors[2], trouble;
    errors[0] = start_often(path, "/one");
    std::atomic<int> running{2};
    auto begin = [&](int number, const char* own) {
        return std::thread([&, number, own] { errors[number] = start_often(path, own), --running; });
    };
    std::thread one = begin(0, "/one"), other = begin(1, "/other");
    while (running > 0 && trouble.empty()) trouble = trouble_in(path);
    one.join();
    other.join();
    CHECK(trouble == "");
    CHECK(errors[0] == "");
    CHECK(errors[1] == "");
    Fd etc = sys::open_file(path + "/etc", O_RDONLY | O_DIRECTORY);
    CHECK(sys::list_directory(etc.get(), "/etc") == std::vector<std::string>{"ld.so.cache", "link"});
}
