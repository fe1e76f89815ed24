// Root file systems that are directories of the node.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// A directory that belongs to the test user.
struct Tree {
    fixtures::TempFolder folder;
    std::string root = folder / "root";
    Tree() {
        std::filesystem::create_directories(root + "/etc");
        std::filesystem::create_directories(root + "/bin");
        std::ofstream(root + "/etc/hello") << "hi";
        std::ofstream(root + "/private") << "p";
        chmod(folder.path().c_str(), 0755);
        for (const char* name : {"", "/etc", "/bin", "/etc/hello", "/private"})
            if (chown((root + name).c_str(), test_uid(), test_gid()) != 0) FAIL("chown");
        chmod((root + "/private").c_str(), 0600);
    }
};

Outcome in_directory(const std::string& path, const plan::Plan& plan, const std::function<std::string()>& task) {
    return as_user([&] {
        StartedContainer container = start_container(plan, open_image_file(path), {});
        return run_task(container, task);
    });
}

}  // namespace

TEST_CASE("a directory is the root file system, written to in memory only, with the owners it has", "[kernel][start]") {
    NEED_CONTAINERS();
    Tree tree;
    Outcome seen = in_directory(tree.root, bare_plan(), [] {
        struct stat st {};
        stat("/private", &st);
        return in_order({slurp("/etc/hello"), slurp("/private"), write_to("/etc/hello", "changed"),
                         write_to("/new", "x"), slurp("/etc/hello"), st.st_uid == getuid() ? "mine" : "not mine"});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "hi p ok ok changed mine");
    CHECK(sys::read_file(tree.root + "/etc/hello") == "hi");
    CHECK_FALSE(std::filesystem::exists(tree.root + "/new"));
}

TEST_CASE("a directory that cannot be entered is an error that names it", "[kernel][start]") {
    NEED_CONTAINERS();
    Tree tree;
    chmod(tree.folder.path().c_str(), 0700);
    if (test_uid() == getuid()) return;
    Outcome seen = in_directory(tree.root, bare_plan(), [] { return std::string(); });
    CHECK(seen.error.find(tree.root) != std::string::npos);
    CHECK(seen.error.find("Permission denied") != std::string::npos);
}

TEST_CASE("hostile row 52: /etc and /proc of a directory are symlinks that lead out of it",
          "[kernel][start][hostile]") {
    NEED_CONTAINERS();
    Tree tree;
    std::filesystem::remove_all(tree.root + "/etc");
    std::string outside = tree.folder / "outside";
    std::filesystem::create_directory(outside);
    chmod(outside.c_str(), 0777);
    std::filesystem::create_symlink(outside, tree.root + "/etc");
    plan::Plan plan = plan_for();
    Outcome seen = in_directory(tree.root, plan, [] { return std::string("started"); });
    INFO(seen.error);
    CHECK(std::filesystem::is_empty(outside));
}
