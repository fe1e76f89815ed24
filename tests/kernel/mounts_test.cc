// Mounts in a container: what is bound, where hostile targets end, and what is refused.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// "nosuid,nodev,ro" and so on, of the mount that `path` is on.
std::string flags_of(const std::string& path) {
    struct statvfs st {};
    if (statvfs(path.c_str(), &st) != 0) return reason(errno);
    std::string text;
    if (st.f_flag & ST_RDONLY) text += "ro ";
    if (st.f_flag & ST_NOSUID) text += "nosuid ";
    if (st.f_flag & ST_NODEV) text += "nodev ";
    if (st.f_flag & ST_NOEXEC) text += "noexec ";
    return text;
}

plan::Plan plan_with(std::initializer_list<plan::Edit> edits) {
    plan::Plan plan = bare_plan();
    plan.edits.insert(plan.edits.end(), edits.begin(), edits.end());
    return plan;
}

/// Everything below a folder, with contents: to see that nothing changed.
std::string snapshot(const std::string& folder) {
    std::string all;
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) names.push_back(entry.path());
    std::sort(names.begin(), names.end());
    for (const std::string& name : names)
        all += name + (std::filesystem::is_regular_file(name) ? "=" + slurp(name) : "") + "\n";
    return all;
}

}  // namespace

TEST_CASE("binds of directories and files, writable and read-only", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.file("file", "from the node");
    host.directory("data");
    host.file("data/x", "x");
    plan::Plan plan = plan_with({bind_of(host / "data", "/data"), bind_of(host / "data", "/deep/er/data", true),
                                 bind_of(host / "file", "/etc/hello", true), bind_of(host / "file", "/new/file")});
    Outcome seen = in_container(plan, fill_sample, [] {
        return in_order({slurp("/data/x"), slurp("/deep/er/data/x"), slurp("/etc/hello"), write_to("/data/y", "y"),
                         write_to("/deep/er/data/y", "z"), write_to("/etc/hello", "z"),
                         write_to("/new/file", "changed"), flags_of("/data"), flags_of("/deep/er/data"),
                         flags_of("/")});
    });
    CHECK(seen.error == "");
    CHECK(seen.text ==
          "x x from the node ok Read-only file system Read-only file system ok nosuid nodev  ro nosuid nodev  nosuid "
          "nodev ");
    CHECK(slurp(host / "data/y") == "y");
    CHECK(slurp(host / "file") == "changed");
}

TEST_CASE("a bind takes the mounts below it, with the same flags", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Outcome seen = in_container(plan_with({bind_of("/dev", "/dev", true)}), fill_sample, [] {
        return in_order(
            {flags_of("/dev"), flags_of("/dev/shm"), write_to("/dev/shm/x", "x"), write_to("/dev/null", "x")});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "ro nosuid nodev  ro nosuid nodev  Read-only file system Permission denied");
}

TEST_CASE("device binds work, and only for devices", "[kernel][mounts]") {
    NEED_CONTAINERS();
    auto device = [](const std::string& source, const std::string& target) {
        plan::Edit edit = bind_of(source, target);
        std::get<plan::Mount>(edit.action).device = true;
        return edit;
    };
    Outcome wrote = in_container(plan_with({device("/dev/null", "/dev/null")}), fill_sample,
                                 [] { return write_to("/dev/null", "x"); });
    CHECK(wrote.error == "");
    CHECK(wrote.text == "ok");
    Outcome refused = in_container(plan_with({device("/etc/passwd", "/dev/null")}), fill_sample,
                                   [] { return std::string("started"); });
    CHECK(refused.error == "mounting /etc/passwd at /dev/null (option --container-mounts): the source is no device");
    Outcome directory =
        in_container(plan_with({device("/etc", "/dev/x")}), fill_sample, [] { return std::string("started"); });
    CHECK(directory.error == "mounting /etc at /dev/x (option --container-mounts): the source is no device");
}

TEST_CASE("tmpfs, noexec and unmount", "[kernel][mounts]") {
    NEED_CONTAINERS();
    plan::Mount mount;
    mount.kind = plan::Mount::Kind::tmpfs;
    mount.target = "/scratch";
    mount.mode = 01777;
    mount.no_exec = true;
    mount.size = 1 << 20;
    plan::Edit tmpfs = {mount, "option --container-mounts", ""};
    plan::Edit over = bind_of("/etc", "/empty");
    plan::Edit undo = {plan::Unmount{"/empty"}, "option --container-mounts", ""};
    Outcome seen = in_container(plan_with({tmpfs, over, undo}), fill_sample, [] {
        struct stat st {};
        stat("/scratch", &st);
        return in_order({cat(st.st_mode), flags_of("/scratch"), write_to("/scratch/a", std::string(2 << 20, 'x')),
                         verdict(access("/empty/passwd", F_OK))});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == cat(S_IFDIR | 01777, " nosuid nodev noexec  short No such file or directory"));
    Outcome refused = in_container(plan_with({undo}), fill_sample, [] { return std::string("started"); });
    CHECK(refused.error == "unmounting /empty (option --container-mounts): nothing is mounted there");
}

TEST_CASE("hostile row 55: sources with odd names are literal, missing ones are named", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    const std::string odd = "a b:c\n$(touch x)`id`";
    host.file(odd, "odd");
    Outcome seen = in_container(plan_with({bind_of(host / odd, "/odd " + odd)}), fill_sample,
                                [&] { return slurp("/odd " + odd); });
    CHECK(seen.error == "");
    CHECK(seen.text == "odd");
    Outcome missing =
        in_container(plan_with({bind_of(host / "none\n", "/x")}), fill_sample, [] { return std::string("started"); });
    CHECK(missing.error == cat("mounting ", printable(host / "none\n"),
                               " at /x (option --container-mounts): the source path does not exist on this node"));
    CHECK(missing.exit_code == 125);
    plan::Edit optional = bind_of(host / "none", "/x");
    std::get<plan::Mount>(optional.action).optional = true;
    CHECK(in_container(plan_with({optional}), fill_sample, [] { return std::string("started"); }).text == "started");
}

TEST_CASE("a source that the caller may not reach is refused", "[kernel][mounts]") {
    NEED_CONTAINERS();
    if (geteuid() != 0) return;  // an ordinary user cannot make a folder that is closed to himself for good
    char closed[] = "/tmp/berth-closed-XXXXXX";
    REQUIRE(mkdtemp(closed));
    std::string below = std::string(closed) + "/below";
    REQUIRE(mkdir(below.c_str(), 0755) == 0);
    Outcome refused =
        in_container(plan_with({bind_of(below, "/x")}), fill_sample, [] { return std::string("started"); });
    std::filesystem::remove_all(closed);
    CHECK(refused.error ==
          cat("mounting ", below, " at /x (option --container-mounts): opening the source: Permission denied"));
}

TEST_CASE("a target of the wrong kind is refused", "[kernel][mounts]") {
    NEED_CONTAINERS();
    auto started = [] { return std::string("started"); };
    CHECK(in_container(plan_with({bind_of("/etc", "/etc/hello")}), fill_sample, started).error ==
          "mounting /etc at /etc/hello (option --container-mounts): the target is no directory and the source is one");
    CHECK(in_container(plan_with({bind_of("/etc/passwd", "/etc")}), fill_sample, started).error ==
          "mounting /etc/passwd at /etc (option --container-mounts): the target is a directory and the source is none");
    plan::Edit none = bind_of("/etc/passwd", "/missing");
    std::get<plan::Mount>(none.action).create = plan::Mount::Create::none;
    CHECK_THAT(in_container(plan_with({none}), fill_sample, started).error,
               Catch::EndsWith("No such file or directory"));
}

TEST_CASE("hostile row 52: system directories of the image that are symlinks stay in the root", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.file("canary", "alive");
    std::string before = snapshot(host / ""), passwd = slurp("/etc/passwd");
    auto fill = [&](squash::LayerWriter& writer) {
        add_file(writer, "bin/inside", slurp(inside_program()), 0755);
        writer.add_symlink("etc", {}, "/");
        writer.add_symlink("dev", {}, "/proc");
        writer.add_symlink("sys", {}, "../../../../../.." + (host / ""));
        writer.add_symlink("run", {}, "nowhere/at/all");
    };
    Outcome seen = in_container(plan_for(), fill, [] { return output_of({"/bin/inside"}) + slurp("/passwd"); });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("inside uid="));
    CHECK_THAT(seen.text, Catch::Contains(cat(":x:", test_uid())));
    CHECK(snapshot(host / "") == before);
    CHECK(slurp("/etc/passwd") == passwd);
}

TEST_CASE("hostile row 53: a target behind a symlink to the node stays in the root", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.directory("victim");
    host.file("source", "bound");
    std::string before = snapshot(host / "");
    auto fill = [&](squash::LayerWriter& writer) {
        fill_sample(writer);
        writer.add_symlink("absolute", {}, host / "victim");
        writer.add_symlink("relative", {}, "../../../../../../.." + (host / "victim"));
        writer.add_symlink("file", {}, host / "victim/new");
        writer.add_symlink("loop", {}, "loop");
    };
    plan::Plan plan = plan_with({bind_of(host / "source", "/absolute/a"), bind_of(host / "source", "/relative/b"),
                                 bind_of(host / "source", "/file"), bind_of(host / "source", "/../../up")});
    Outcome seen = in_container(plan, fill, [&] {
        return in_order({slurp("/absolute/a"), slurp(host / "victim/a"), slurp(host / "victim/b"),
                         slurp(host / "victim/new"), slurp("/up")});
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "bound bound bound bound bound");
    CHECK(snapshot(host / "") == before);
    Outcome loop =
        in_container(plan_with({bind_of(host / "source", "/loop/x")}), fill, [] { return std::string("started"); });
    CHECK_THAT(loop.error, Catch::Contains("/loop/x (option --container-mounts): ") &&
                               Catch::EndsWith("Too many levels of symbolic links"));
}

TEST_CASE("hostile row 53: nothing is made in a directory of the node where a symlink of the image leads",
          "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.directory("data");
    host.file("source", "bound");
    std::string before = snapshot(host / "");
    auto fill = [&](squash::LayerWriter& writer) {
        fill_sample(writer);
        writer.add_symlink("sneaky", {}, "/data");
        writer.add_symlink("home", {}, "/data");
    };
    auto started = [] { return std::string("started"); };
    Outcome refused = in_container(
        plan_with({bind_of(host / "data", "/data"), bind_of(host / "source", "/sneaky/new")}), fill, started);
    CHECK_THAT(refused.error,
               Catch::EndsWith(
                   "creating /sneaky/new in the container: that would be in a directory of the node, by a symlink"));
    for (const plan::Action& action :
         {plan::Action(plan::Directory{"/home/user"}), plan::Action(plan::Symlink{"/sneaky/link", "x"})})
        CHECK_THAT(
            in_container(plan_with({bind_of(host / "data", "/data"), {action, "system", ""}}), fill, started).error,
            Catch::EndsWith(", by a symlink"));
    // An account file there belongs to the node.
    plan::Edit account = {plan::AccountLine{"/data/passwd", "me:x:1:1:::", 2}, "system", ""};
    CHECK(in_container(plan_with({bind_of(host / "data", "/data"), account}), fill, started).text == "started");
    // A working directory that the image names is not made on the node either.
    plan::Plan plan = plan_with({bind_of(host / "data", "/data")});
    plan.workdir = "/data/made";
    CHECK(in_container(plan, fill, started).error ==
          "entering the working directory of the image /data/made: it is missing in the directory of the node "
          "that is mounted there; make it, or use --container-workdir");
    CHECK(snapshot(host / "") == before);
}

TEST_CASE("a mount point that the user names is made in a directory of the node", "[kernel][mounts]") {
    NEED_CONTAINERS();
    Folder host;
    host.directory("data");
    host.file("source", "bound");
    Outcome seen = in_container(plan_with({bind_of(host / "data", "/data"), bind_of(host / "source", "/data/here")}),
                                fill_sample, [] { return slurp("/data/here"); });
    CHECK(seen.error == "");
    CHECK(seen.text == "bound");
}

TEST_CASE("hostile row 54: a target that turns out to be the root is refused", "[kernel][mounts]") {
    NEED_CONTAINERS();
    auto fill = [](squash::LayerWriter& writer) {
        fill_sample(writer);
        writer.add_symlink("data", {}, "/");
    };
    Outcome refused = in_container(plan_with({bind_of("/etc", "/data")}), fill, [] { return std::string("started"); });
    CHECK(refused.error ==
          "mounting /etc at /data (option --container-mounts): the target is the root of the container");
    plan::Plan unmount = plan_with({{plan::Unmount{"/data"}, "option --container-mounts", ""}});
    CHECK(in_container(unmount, fill, [] { return std::string("started"); }).error ==
          "unmounting /data (option --container-mounts): it is the root of the container");
}

TEST_CASE("account files that are no files do not stop or hang a start silently", "[kernel][mounts]") {
    NEED_CONTAINERS();
    auto fifo = [](squash::LayerWriter& writer) { writer.add_special("etc/passwd", {}, S_IFIFO); };
    plan::Edit account = {plan::AccountLine{"/etc/passwd", "me:x:1:1:::", 2}, "system", ""};
    Outcome refused = in_container(plan_with({account}), fifo, [] { return std::string("started"); });
    CHECK_FALSE(refused.hung);
    CHECK(refused.error == "reading /etc/passwd of the image: it is no regular file");
    auto dangling = [](squash::LayerWriter& writer) { writer.add_symlink("etc/passwd", {}, "../var/lib/passwd"); };
    Outcome made = in_container(plan_with({account}), dangling, [] { return slurp("/var/lib/passwd"); });
    CHECK(made.error == "");
    CHECK(made.text == "me:x:1:1:::\n");
}
