// The modes that containers show of their image (mount.modes).
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "runtime/base/descriptors.hh"
#include "runtime/base/text.hh"
#include "runtime/host/facts.hh"
#include "runtime/images/open.hh"
#include "runtime/request/reference.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// Modes as images of Red Hat's kind have them. The programs are the node's, which are mounted at /usr.
void fill_red_hat(squash::LayerWriter& writer) {
    for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
    writer.add_directory("usr", {});
    add_file(writer, "etc/shadow", "root:secret\n", 0000);
    add_file(writer, "etc/gshadow", "root:secret\n", 0000);
    add_file(writer, "opt/bin/sudo", "sudo\n", 04111);
    add_file(writer, "opt/bin/script", "#!/usr/bin/sh\necho ran\n", 0111);
    add_file(writer, "opt/bin/tool", "tool\n", 0555);
    add_file(writer, "opt/bin/old", "old\n", 0555);
    add_file(writer, "opt/share/file", "aaa\n", 0444);
    add_file(writer, "opt/lib/folder/file", "x\n", 0444);
    add_file(writer, "closed/file", "x\n", 0444);
    add_file(writer, "root/profile", "x\n", 0400);
    for (const char* name : {"opt/bin", "opt/share", "opt/lib", "opt/lib/folder", "opt/lib/empty", "boot"})
        writer.add_directory(name, {.mode = 0555});
    writer.add_directory("root", {.mode = 0550});
    writer.add_directory("closed", {.mode = 0000});
}

/// Each of them works after Enroot's create, and none with the image's own modes.
constexpr const char* script_lines[] = {
    "touch /root/x",
    "mktemp -p /root",
    "cp -a /opt/lib /root/lib",
    "ln -s x /opt/bin/y",
    "cp /opt/bin/sudo /tmp",
    "install -m 755 /usr/bin/true /opt/bin/mine",
    "rm -f /opt/bin/old",
    "mv /opt/bin/tool /opt/bin/tool2",
    "/opt/bin/script",
    "cat /etc/shadow",
    "cp -p /etc/shadow /tmp/shadow",
    "grep -q secret /etc/gshadow",
    "sed -i s/a/b/ /opt/share/file",
    "ln /opt/share/file /opt/share/hard",
    "mkdir /opt/lib/new",
    "mkfifo /opt/lib/pipe",
    "rmdir /opt/lib/empty",
    "rm -rf /opt/lib/folder",
    "echo x > /boot/new",
    "tar -C / -cf /tmp/all.tar etc opt root",
    "ls /closed",
    "cat /closed/file",
};

/// By the node's shell: the image has none.
bool line_works(const char* line) {
    pid_t child = fixtures::forked();
    if (child == 0) {
        sys::point_at_null({STDOUT_FILENO, STDERR_FILENO});
        ::execl("/usr/bin/sh", "sh", "-c", line, nullptr);
        ::_exit(127);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

/// What fails of the lines, and the modes that some objects have, in a container of `image` on such a site.
Outcome run_lines(const std::string& image, const plan::Site& site) {
    plan::Plan plan = plan_for();
    plan.edits.push_back(bind_of("/usr", "/usr", true));
    return as_user([&] {
        OpenedImage opened = open_image(plan::parse_reference(image), caller_of_this_process(), site, {});
        StartedContainer container = start_container(plan, std::move(opened.image), site);
        return run_task(container, [] {
            ::setenv("PATH", "/usr/bin", 1);
            std::string out;
            for (const char* path :
                 {"/root", "/opt/bin", "/etc/shadow", "/opt/bin/sudo", "/opt/bin/script", "/closed"}) {
                struct stat st {};
                out += ::stat(path, &st) == 0 ? cat(st.st_mode & 07777, " ") : "none ";
            }
            size_t failed = 0;
            for (const char* line : script_lines)
                if (!line_works(line)) out += cat("\n", line), ++failed;
            return failed == std::size(script_lines) ? out.substr(0, out.find('\n')) + "all fail" : out;
        });
    });
}

}  // namespace

TEST_CASE("what works after Enroot's create works in a container", "[kernel][start]") {
    NEED_CONTAINERS();
    NamedScene scene(fill_red_hat);
    plan::Site site;
    site.store.path = scene.folder / "store";
    site.mount.engine = GENERATE(plan::MountEngine::berth, plan::MountEngine::extract);
    Outcome seen = run_lines(scene.image, site);
    CHECK(seen.error == "");
    CHECK(seen.text == cat(0750, " ", 0755, " ", 0400, " ", 04511, " ", 0511, " ", 0700, " "));
    site.mount.modes = plan::ImageModes::image;
    seen = run_lines(scene.image, site);
    CHECK(seen.error == "");
    CHECK(seen.text == cat(0550, " ", 0555, " ", 0, " ", 04111, " ", 0111, " ", 0, " all fail"));
}

TEST_CASE("a saved container has its image's modes, but for those that it has changed", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene(fill_red_hat);
    std::string file = scene.folder / "saved.sqsh", again = scene.folder / "again.sqsh";
    std::string script =
        "touch /root/x /opt/share/new; touch -d 2001-01-01 /etc/gshadow; chmod 600 /etc/shadow; chmod 700 /opt/lib; "
        "rm -rf /opt/bin; mkdir /opt/bin; touch /opt/bin/mine";
    auto save = [&](const std::string& image, const std::string& output, const std::vector<std::string>& words) {
        std::vector<std::string> all{"run", "--mount", "/usr:/usr:ro", "--save", output, image};
        all.insert(all.end(), words.begin(), words.end());
        return scene.program("berth", all);
    };
    auto check = [](const std::string& path) {
        fixtures::Squashfs saved(path);
        auto mode = [&](const char* name) { return saved.line(name).substr(0, 10); };
        CHECK(mode("root") == "dr-xr-x---");
        CHECK(mode("root/profile") == "-r--------");
        CHECK(mode("opt/share") == "dr-xr-xr-x");
        CHECK(mode("etc/gshadow") == "----------");
        CHECK(mode("etc/shadow") == "-rw-------");
        CHECK(mode("opt/lib") == "drwx------");
        CHECK(mode("opt/bin") == "drwxr-xr-x");
        CHECK(mode("closed") == "d---------");
        CHECK_THAT(saved.line("etc/gshadow"), Catch::Contains("2001-01-01"));
    };
    CHECK(save(scene.image, file, {"/usr/bin/bash", "--norc", "-c", script}) == "|0");
    check(file);
    CHECK(save(file, again, {"/usr/bin/touch", "/root/y", "/opt/share/other"}) == "|0");
    check(again);
}
