// Who a task is in its container, and what it may do there.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

TEST_CASE("hostile row 21: setuid files are data and give nothing", "[kernel][start]") {
    NEED_CONTAINERS();
    auto fill = [](squash::LayerWriter& writer) {
        fill_sample(writer);
        add_file(writer, "bin/su", "x", 04755);
        add_file(writer, "private", "p", 0600);
    };
    Outcome seen = in_container(
        plan_for(), fill, [] { return mode_of("/bin/su") + " " + mode_of("/private") + " " + slurp("/private"); });
    std::string owner = cat(test_uid(), ":", test_gid());
    CHECK(seen.error == "");
    CHECK(seen.text == cat("104755 ", owner, " 100600 ", owner, " p"));
}

TEST_CASE("hostile row 20: xattrs of the user are served, the overlay's own marks are not", "[kernel][start]") {
    NEED_CONTAINERS();
    auto fill = [](squash::LayerWriter& writer) {
        squash::Attributes attributes;
        attributes.xattrs = {{"user.colour", "red"}, {"user.overlay.opaque", "y"}, {"user.overlay.redirect", "/etc"}};
        writer.add_directory("marked", attributes);
        add_file(writer, "marked/file", "x");
        add_file(writer, "etc/hello", "hello");
    };
    Outcome seen = in_container(bare_plan(), fill, [] {
        char value[64] = {}, names[256];
        ssize_t got = getxattr("/marked", "user.colour", value, sizeof value);
        ssize_t size = listxattr("/marked", names, sizeof names);
        return cat(got, " ", std::string(value), " ", std::string(names, size > 0 ? static_cast<size_t>(size - 1) : 0),
                   " ", names_in("/marked"));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "3 red user.colour file ");
}

TEST_CASE("a task has no capabilities, but root inside those over its own files, and gains no privileges",
          "[kernel][start]") {
    NEED_CONTAINERS();
    bool remap = GENERATE(false, true);
    plan::Request request;
    request.remap_root = remap;
    Outcome seen = in_container(plan_for(request), fill_sample, [] {
        std::string text;
        for (const char* name : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"})
            text += status_line(name) + " ";
        // After an exec too, where root would get its capabilities back.
        return text + output_of({"/bin/inside"});
    });
    uid_t uid = remap ? 0 : test_uid();
    gid_t gid = remap ? 0 : test_gid();
    // As root: CAP_DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID, SYS_CHROOT and SETFCAP.
    std::string held = remap ? "000000008004001e " : "0000000000000000 ";
    CHECK(seen.error == "");
    CHECK(seen.text == cat(held, held, held, held, held, "1 inside uid=", uid, " gid=", gid, " euid=", uid, "\n|0"));
}

TEST_CASE("remap-root: changes of owner and ids seem to work", "[kernel][start]") {
    NEED_CONTAINERS();
    plan::Request request;
    request.remap_root = true;
    Outcome seen = in_container(plan_for(request), fill_sample, [] {
        return in_order({cat(getuid(), getgid()), mode_of("/etc/hello"), verdict(chown("/etc/hello", 33, 33)),
                         verdict(lchown("/etc/link", 1, 1)), verdict(fchownat(AT_FDCWD, "/etc/hello", 5, 5, 0)),
                         verdict(setresuid(42, 42, 42)), verdict(setresgid(42, 42, 42)), verdict(setuid(42)),
                         verdict(mknod("/null", S_IFCHR | 0666, 259)), verdict(mknod("/fifo", S_IFIFO | 0600, 0)),
                         cat(getuid()), mode_of("/etc/hello"), mode_of("/null"), mode_of("/fifo"),
                         // How overlayfs marks a removed file: everybody may make it.
                         verdict(mknod("/tmp/whiteout", S_IFCHR, 0)), mode_of("/tmp/whiteout"),
                         status_line("Seccomp")});
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "00 100644 0:0 ok ok ok ok ok ok ok ok 0 100644 0:0 No such file or directory 10600 0:0 ok 20000 0:0 2");
}

TEST_CASE("without remap-root, confinement and faked owners there is no filter, and ids are real", "[kernel][start]") {
    NEED_CONTAINERS();
    plan::Plan plan = plan_for();
    plan.system_calls.confined = plan.system_calls.fake_chown = false;
    Outcome seen = in_container(plan, fill_sample, [] {
        return status_line("Seccomp") + " " + verdict(setresuid(42, 42, 42)) + " " +
               verdict(chown("/etc/hello", 33, 33));
    });
    CHECK(seen.error == "");
    // The tests' own filter hides newer system calls.
    CHECK(seen.text == std::string(getenv("BERTH_TEST_OLD_KERNEL") ? "2" : "0") + " Invalid argument Invalid argument");
}

TEST_CASE("hostile row 61: a uid that no passwd file knows gets a line in the container", "[kernel][start]") {
    NEED_CONTAINERS();
    Outcome seen = in_container(plan_for(), fill_sample, [] { return slurp("/etc/passwd") + slurp("/etc/group"); });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("root:x:0:0:root:/root:/bin/sh\n"));
    CHECK_THAT(seen.text, Catch::Contains(cat(":x:", test_uid(), ":", test_gid(), ":")));
}
