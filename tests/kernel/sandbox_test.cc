// What a task can and cannot do to the node: the properties that hold for every container.
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/sandbox/capabilities.hh"
#include "runtime/sandbox/seccomp.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// The mounts of this process that lack the flag, with blanks between (proc(5), mountinfo).
std::string mounts_without(const std::string& flag) {
    std::string out;
    for (const std::string& line : split(slurp("/proc/self/mountinfo"), '\n')) {
        std::vector<std::string> fields = split(line, ' ');
        if (fields.size() > 5 && ("," + fields[5] + ",").find("," + flag + ",") == std::string::npos)
            out += fields[4] + " ";
    }
    return out;
}

std::string read_only(const std::string& path) {
    struct statvfs st {};
    return ::statvfs(path.c_str(), &st) != 0 ? reason(errno) : (st.f_flag & ST_RDONLY) ? "ro" : "rw";
}

}  // namespace

TEST_CASE("every mount is nosuid, and nodev but for the named devices", "[kernel][sandbox]") {
    NEED_CONTAINERS();
    Outcome seen = in_container(plan_for(), fill_sample,
                                [] { return cat(mounts_without("nosuid"), "; ", mounts_without("nodev")); });
    CHECK(seen.error == "");
    // A file is hidden behind /dev/null.
    std::string masks;
    for (const std::string& path : user_facts().readable)
        if (struct stat st{}; ::stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode)) masks += path + " ";
    CHECK(seen.text == cat("; /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/pts ", masks));
}

TEST_CASE("a task cannot set groups, and its user namespace never could", "[kernel][sandbox]") {
    NEED_CONTAINERS();
    Outcome seen = in_container(plan_for(), fill_sample, [] {
        gid_t group = getgid();
        return in_order({std::string(trimmed(slurp("/proc/self/setgroups"))), verdict(setgroups(1, &group)),
                         std::string(trimmed(slurp("/proc/self/uid_map"))).substr(0, 4)});
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("deny Operation not permitted "));
}

TEST_CASE("supplementary groups stay", "[kernel][sandbox][root]") {
    NEED_CONTAINERS();
    if (geteuid() != 0) return;
    Folder host;
    host.file("shared", "for the group");
    REQUIRE(::chown((host / "shared").c_str(), 0, 34567) == 0);
    REQUIRE(::chmod((host / "shared").c_str(), 0640) == 0);
    plan::Plan plan = plan_for();
    plan.edits.push_back(bind_of(host / "shared", "/shared"));
    ContainerImage image = make_image(fill_sample);
    Outcome seen = in_child([&] {
        gid_t groups[] = {test_gid(), 34567};
        if (::setgroups(2, groups) != 0 || ::setresgid(test_gid(), test_gid(), test_gid()) != 0 ||
            ::setresuid(test_uid(), test_uid(), test_uid()) != 0)
            throw SysError("becoming the test user");
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        StartedContainer container = start_container(plan, std::move(image), {});
        return run_task(container, [] { return cat(getgroups(0, nullptr), " ", slurp("/shared")); });
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "2 for the group");
}

TEST_CASE("what a caller could read of the kernel is hidden, and the node's settings cannot be written",
          "[kernel][sandbox]") {
    NEED_CONTAINERS();
    plan::HostFacts facts = user_facts();
    plan::Plan plan = plan_for();
    Outcome seen = in_container(plan, fill_sample, [&] {
        std::string out;
        for (const std::string& path : facts.readable) {
            struct stat st {};
            ::stat(path.c_str(), &st);
            if (S_ISDIR(st.st_mode) ? st.st_nlink != 2 || read_only(path) != "ro"
                                    : slurp(path) != "" || !S_ISCHR(st.st_mode))
                out += path + " ";
        }
        for (const char* path :
             {"/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/mm/transparent_hugepage/enabled"})
            if (::open(path, O_WRONLY | O_CLOEXEC) >= 0) out += path;
        return out + "; " + std::string(trimmed(slurp("/proc/sys/kernel/ostype")));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "; Linux");
    // As for whoever could write there.
    facts.writable = {"/proc/sys", "/proc/irq", "/proc/no-such"};
    plan::Caller caller;
    caller.uid = test_uid();
    caller.gid = test_gid();
    Outcome guarded = in_container(plan::make_plan({}, caller, {}, {}, facts, {}), fill_sample, [] {
        return read_only("/proc/sys") + read_only("/proc/irq") + read_only("/proc/self");
    });
    CHECK(guarded.error == "");
    CHECK(guarded.text == "rororw");
    plan::Site open;
    open.security.mask = false;
    Outcome off = in_container(plan::make_plan({}, caller, {}, open, facts, {}), fill_sample,
                               [] { return read_only("/proc/sys"); });
    CHECK(off.text == "rw");
}

TEST_CASE("file systems in memory have the limits that the site sets", "[kernel][sandbox]") {
    NEED_CONTAINERS();
    plan::Caller caller;
    caller.uid = test_uid();
    caller.gid = test_gid();
    plan::Site site;
    site.limits.tmpfs_size = 1 << 20;
    site.mount.volumes = plan::Volumes::tmpfs;
    plan::ImageConfig config;
    config.volumes = {"/data", "cache/deep"};
    plan::Plan plan = plan::make_plan({}, caller, {}, site, user_facts(), config);
    Outcome seen = in_container(plan, fill_sample, [] {
        std::string out;
        for (const char* path : {"/tmp", "/run", "/data", "/cache/deep", "/dev"}) {
            struct statvfs st {};
            out += ::statvfs(path, &st) == 0 ? cat(st.f_blocks * st.f_frsize >> 20, " ") : "? ";
        }
        return out + write_to("/data/x", "x") + " " + write_to("/x", std::string(2 << 20, 'x'));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "1 1 1 1 64 ok short");
}

#ifdef __x86_64__
TEST_CASE("seccomp: the x32 way in is guarded too", "[kernel][sandbox][seccomp]") {
    NEED_CONTAINERS();
    auto by_x32 = [] {
        constexpr long x32 = 0x40000000;
        return in_order({verdict(syscall(x32 | SYS_keyctl, 0, 0, 0)), verdict(syscall(x32 | SYS_unshare, 0x10000000)),
                         verdict(syscall(x32 | SYS_mount, 0, 0, 0))});
    };
    const std::string refused = "Operation not permitted Operation not permitted Operation not permitted";
    Outcome seen = in_container(plan_for(), fill_sample, by_x32);
    CHECK(seen.error == "");
    // The kernel's own answer where it has no x32.
    CHECK(seen.text == (sandbox::kernel_has_x32()
                            ? refused
                            : "Function not implemented Function not implemented Function not implemented"));
    Outcome guarded = as_user([&] {
        sandbox::forbid_new_privileges();
        sandbox::install_filter(sandbox::filter_for({.confine = true, .fake_root = false, .allow = {}, .deny = {}}));
        return by_x32();
    });
    CHECK(guarded.error == "");
    CHECK(guarded.text == refused);
}
#endif
