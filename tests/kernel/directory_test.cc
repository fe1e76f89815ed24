// Root file systems that are directories of the node.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/named_support.hh"

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

namespace {

/// A root file system that root has made, and nobody else may write to. Its programs are the node's, by a mount.
struct RootsTree {
    fixtures::TempFolder folder;
    std::string root = folder / "root";
    NamedScene scene;

    RootsTree() {
        chmod(folder.path().c_str(), 0755);
        for (const char* name : {"/etc", "/usr", "/srv/deep", "/private", "/opt"}) {
            std::filesystem::create_directories(root + name);
            chmod((root + name).c_str(), 0755);
        }
        chmod((root + "/srv").c_str(), 0755);
        for (const char* name : {"bin", "lib", "lib64", "sbin"})
            std::filesystem::create_symlink(cat("usr/", name), cat(root, "/", name));
        std::filesystem::create_symlink("srv/deep", root + "/link");
        file("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n", 0644);
        file("/etc/group", "root:x:0:\n", 0640);
        file("/etc/hello", "of root\n", 0644);
        file("/private/secret", "secret\n", 0644);
        chmod((root + "/private").c_str(), 0700);
    }
    void file(const std::string& name, const std::string& content, mode_t mode) const {
        std::ofstream(root + name) << content;
        chmod((root + name).c_str(), mode);
    }
    /// Output of a script in a container of it, and "|CODE".
    std::string shell(std::vector<std::string> options, const std::string& script) const {
        options.insert(options.begin(), {"run", "--mount", "/usr:/usr:ro"});
        options.insert(options.end(), {root, "/usr/bin/bash", "--norc", "-c", script});
        return scene.program("berth", options);
    }
    std::string state() const {
        std::string out;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
            struct stat st {};
            lstat(entry.path().c_str(), &st);
            out += cat(entry.path().string(), " ", st.st_mode, " ", st.st_uid, " ", st.st_size, " ", st.st_mtime, "\n");
        }
        return out;
    }
};



}  // namespace

TEST_CASE("a directory that belongs to another user starts", "[kernel][root][start]") {
    NEED_ROOT();
    NEED_CONTAINERS();
    RootsTree tree;
    std::string before = tree.state();
    const std::string look = "cat /etc/hello; grep -c . /etc/passwd; stat -c '%a %Y' /etc /srv | grep -c .; "
                             "cat /private/secret 2>&1 | grep -o 'Permission denied'; id -u";
    std::string uid = cat(test_uid()), seen = "of root\n2\n2\nPermission denied\n";
    SECTION("plain, and what is made in a directory that the start needed stays in memory") {
        CHECK(tree.shell({}, look) == seen + uid + "\n|0");
        CHECK(tree.shell({}, "echo x > /etc/new && cat /etc/new") == "x\n|0");
    }
    // Its line takes the place of root's.
    SECTION("with --root") {
        CHECK(tree.shell({"--root"}, look) == "of root\n1\n2\nPermission denied\n0\n|0");
    }
    SECTION("with --ro") {
        CHECK(tree.shell({"--ro"}, look) == seen + uid + "\n|0");
        CHECK_THAT(tree.shell({"--ro"}, "echo x > /etc/new"), Catch::Contains("Read-only file system"));
    }
    SECTION("mount points, also where a link of the tree leads, and deep ones") {
        CHECK(tree.shell({"--mount", "/etc/hostname:/srv/deep/a/b", "--mount", "/etc:/link/there", "--mount",
                          "/etc:/opt"},
                         "test -s /srv/deep/a/b && test -e /srv/deep/there/hosts && test -e /opt/hosts; echo $?") ==
              "0\n|0");
    }
    SECTION("a named one, which is started again with other mounts") {
        CHECK(tree.shell({"--name", "c"}, look + "; echo mine > /etc/mine") == seen + uid + "\n|0");
        CHECK(tree.shell({"--name", "c", "--mount", "/etc:/srv/deep/etc"},
                         "cat /etc/mine; grep -c . /etc/passwd; test -e /srv/deep/etc/hosts; echo $?") ==
              "mine\n2\n0\n|0");
        // What a container has made of a directory is the container's.
        CHECK(tree.shell({"--name", "c"}, "mv /srv /gone; ln -s /etc /srv; echo $?") == "0\n|0");
        CHECK(tree.shell({"--name", "c", "--mount", "/etc/hostname:/opt/x/y"}, "cat /srv/mine") == "mine\n|0");
    }
    SECTION("a directory in which nobody else may look is said") {
        CHECK_THAT(tree.shell({"--mount", "/etc:/private/etc"}, "true"),
                   Catch::Contains("at /private/etc") && Catch::Contains("Permission denied") &&
                       Catch::EndsWith("|125"));
    }
    SECTION("saved, with what may be read of it") {
        std::string file = tree.scene.folder / "saved.sqsh";
        CHECK(tree.shell({"--save", file}, "echo new > /etc/new") ==
              cat("berth: saving ", tree.root, ": 2 files and directories of other users that you may not read are "
                  "left out, /etc/group the first\n|0"));
        fixtures::Squashfs saved(file);
        CHECK(saved.content("etc/new") + saved.content("etc/hello") == "new\nof root\n");
        CHECK_THAT(saved.line("private"), Catch::Contains("drwx------"));
        CHECK(saved.line("private/secret") + saved.line("etc/group") == "");
    }
    CHECK(tree.state() == before);
}
