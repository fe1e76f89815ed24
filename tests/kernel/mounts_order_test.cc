// Mounts one after the other: where the later ones are looked up, and what the container's own directories in memory
// share.
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

plan::Edit tmpfs_at(const std::string& target) {
    plan::Mount mount;
    mount.kind = plan::Mount::Kind::tmpfs;
    mount.target = target;
    return {mount, "user", "by a test"};
}

const char* presence(const char* path) { return ::access(path, F_OK) == 0 ? "there" : "missing"; }

dev_t device_of(const char* path) {
    struct stat st {};
    return ::stat(path, &st) == 0 ? st.st_dev : 0;
}

}  // namespace

TEST_CASE("a mount point is looked up in what was mounted just before", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.file("file", "from the node");
    host.directory("data");
    host.file("data/x", "x");
    plan::Plan plan = bare_plan();
    // The same directory each time: the image's overlay, memory, and one of the node.
    for (plan::Edit edit :
         {bind_of(host / "file", "/place/one"), bind_of(host / "file", "/place/two"), tmpfs_at("/place"),
          bind_of(host / "file", "/place/three"), bind_of(host / "file", "/place/four"),
          bind_of(host / "data", "/place"), bind_of(host / "file", "/place/x")})
        plan.edits.push_back(edit);
    Outcome seen = in_container(plan, fill_sample, [] {
        return in_order({slurp("/place/x"), presence("/place/one"), presence("/place/three")});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "from the node missing missing");
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(host / "data"))
        left.push_back(entry.path().filename());
    CHECK(left == std::vector<std::string>{"x"});
    CHECK(slurp(host / "data/x") == "x");
}

TEST_CASE("the container's directories in memory are one file system, or each its own where the root has a limit",
          "[kernel][mounts]") {
    NEED_CONTAINERS();
    for (uint64_t limit : {uint64_t{0}, uint64_t{8} << 20}) {
        plan::Plan plan = bare_plan();
        plan.tmpfs_size = limit;
        plan.edits.push_back(tmpfs_at("/a"));
        plan.edits.push_back(tmpfs_at("/b"));
        Outcome seen = in_container(plan, fill_sample, [&] {
            struct statvfs st {};
            bool larger = ::statvfs("/a", &st) == 0 && st.f_blocks * st.f_frsize > (uint64_t{8} << 20),
                 shared = device_of("/a") == device_of("/b");
            return in_order({shared ? "shared" : "apart", larger ? "large" : "small", write_to("/a/x", "x"),
                             presence("/b/x"), presence("/x")});
        });
        CHECK(seen.error == "");
        CHECK(seen.text == cat(limit == 0 ? "shared" : "apart", " large ok missing missing"));
    }
}
