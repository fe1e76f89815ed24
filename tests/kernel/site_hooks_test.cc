// What berth-hooks(7) says of the programs of a site, in a container that `berth run` makes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "runtime/base/sys.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/site_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

/// Enroot's hooks are written for it.
const std::string for_bash = "[ -n \"$BASH_VERSION\" ] || exec bash \"$0\"\n";

/// A program that answers with `json`, which has no single quotes in it.
std::string answering(const std::string& json) { return "echo '" + json + "'\n"; }

struct HookScene : SiteScene {
    /// What the container says that runs `script`, or the error.
    std::string said(const std::string& script, const std::vector<std::string>& variables = {},
                     const std::vector<std::string>& options = {}, const std::string& site_text = "") const {
        Outcome seen = shell(site_text, script, variables, options);
        return seen.error + seen.text;
    }

    /// What a start says with the one program `a`.
    std::string with(const std::string& script, const std::string& site_text = "") {
        hooks = {{"a", script}};
        return said("echo it runs", {}, {}, site_text);
    }

    /// The line of a start that fails for this reason.
    static std::string failed(const std::string& why) {
        return "berth: hook /etc/berth/hooks.d/a: " + why + "\n|125";
    }
};

}  // namespace

TEST_CASE("berth-hooks(7): a program that ends with another code than 0, or by a signal, fails the start with one line",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    CHECK(scene.with("exit 3\n") == HookScene::failed("it ended with 3"));
    CHECK(scene.with("echo first >&2; echo '/local/17 is missing' >&2; exit 1\n") ==
          HookScene::failed("it ended with 1: /local/17 is missing"));
    CHECK(scene.with("kill -TERM $$\n") == HookScene::failed("it ended with 143"));
    CHECK(scene.with("echo unseen >&2; exit 0\n") == "it runs\n|0");
    // What it says last, however much it has said.
    CHECK(scene.with("yes talk | head -c 200000 >&2; echo the reason >&2; exit 1\n") ==
          HookScene::failed("it ended with 1: the reason"));
}

TEST_CASE("berth-hooks(7): a program that takes longer than hooks.timeout is killed, and what it started is not",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    const std::string soon = "[hooks]\ntimeout = 1\n", pids = scene.folder / "pids",
                      late = HookScene::failed("it took more than 1 s (hooks.timeout) or wrote too much: still at it");
    CHECK(scene.with(cat("echo $$ > ", pids, "; sleep 30 > /dev/null & echo $! >> ", pids,
                         "; echo still at it >&2; sleep 30\n"),
                     soon) == late);
    std::vector<std::string> started = split(slurp(pids), '\n');
    REQUIRE(started.size() >= 2);
    CHECK_FALSE(std::filesystem::exists("/proc/" + started[0]));
    pid_t child = std::stoi(started[1]);
    CHECK(std::filesystem::exists(cat("/proc/", child)));
    fixtures::kill_one(child, SIGKILL);
    // As long as anything has its standard output open, it counts as running; and it may close it and stay.
    CHECK(scene.with("echo still at it >&2; sleep 3 &\n", soon) == late);
    CHECK(scene.with("echo still at it >&2; exec >&-; exec sleep 3\n", soon) == late);
    CHECK(scene.with("sleep 3 > /dev/null 2>&1 &\n", soon) == "it runs\n|0");
}

TEST_CASE("berth-hooks(7): an answer that is nothing else but containerEdits fails the start and names the program",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    for (const char* nothing : {"true\n", "echo\n", "echo '{}'\n"}) CHECK(scene.with(nothing) == "it runs\n|0");
    auto refused = [&](const std::string& answer) {
        INFO(answer);
        std::string said = scene.with(answering(answer));
        CHECK_THAT(said, StartsWith("berth: ") && Contains("/etc/berth/hooks.d/a") && EndsWith("|125"));
        CHECK(std::count(said.begin(), said.end(), '\n') == 1);
        CHECK(said.find("it runs\n") == std::string::npos);
    };
    for (const char* junk :
         {"junk", "[]", "{\"env\":", "{} {}", R"({"unknown":1})", R"({"env":["no equals"]})", R"({"env":"A=1"})",
          R"({"env":["A=x\\ty"]})", R"({"env":["A=x\\ny"]})", R"({"mounts":[{"hostPath":"/tmp"}]})",
          R"({"mounts":[{"hostPath":"/tmp","containerPath":"/x","more":1}]})",
          R"({"hooks":[{"hookName":"createContainer","path":"/bin/sh","args":["sh"]}]})"})
        refused(junk);
    for (const char* target : {"/", "/dev", "/proc", "/sys", "/proc/self", "relative"})
        CHECK_THAT(scene.with(answering(cat(R"({"mounts":[{"hostPath":"/tmp","containerPath":")", target, R"("}]})"))),
                   StartsWith("berth: hook a: ") && EndsWith("|125"));
    CHECK_THAT(scene.with(answering(R"({"mounts":[{"hostPath":"tmp","containerPath":"/x"}]})")),
               StartsWith("berth: hook a: tmp: it is no absolute path"));
    CHECK_THAT(scene.with(answering(R"({"mounts":[{"hostPath":"/no/such","containerPath":"/x"}]})")),
               Contains("mounting /no/such at /x (hook a): the source path does not exist on this node"));
    CHECK_THAT(scene.with("head -c 5000000 /dev/zero\n"), Contains("or wrote too much") && EndsWith("|125"));
    CHECK_THAT(scene.with(answering(R"({"additionalGids":[5],"env":["A=1"]})")),
               Contains("warning: hook a: additionalGids has no effect for the groups 5, ") && EndsWith("it runs\n|0"));
}

TEST_CASE("berth-hooks(7): programs run one after the other in the order of their names, and the later one is followed",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    const std::string log = scene.folder / "log";
    auto logging = [&](const std::string& name) {
        return cat("echo ", name, " >> ", log, "; echo '{\"env\":[\"WHO=", name, "\"]}'\n");
    };
    scene.hooks = {{"20-b", logging("20-b")},
                   {"10-a", "sleep 0.3\n" + logging("10-a")},
                   {"30-off", logging("30-off")},
                   {".hidden", logging(".hidden")},
                   {"Z", logging("Z")}};
    scene.prepare = [&] {
        if (::chmod("/etc/berth/hooks.d/30-off", 0644) != 0) throw SysError("turning a program off");
        std::filesystem::create_directory("/etc/berth/hooks.d/folder");
        std::filesystem::rename("/etc/berth/hooks.d/Z", "/etc/berth/linked");
        std::filesystem::create_symlink("/etc/berth/linked", "/etc/berth/hooks.d/90-link");
    };
    CHECK(scene.said("echo $WHO") == "Z\n|0");
    CHECK(slurp(log) == "10-a\n20-b\nZ\n");
    // berth plan runs them as well.
    Outcome plan = scene.berth("", {"plan", scene.image});
    CHECK_THAT(plan.text, Contains("WHO") && EndsWith("|0"));
    CHECK(slurp(log) == "10-a\n20-b\nZ\n10-a\n20-b\nZ\n");
}

TEST_CASE("berth-hooks(7): an answer's variables override image and job, but not what --container-env names",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    scene.hooks = {{"a", answering(R"({"env":["OF_JOB=hook","KEPT=hook","SLURM_JOB_ID=hook","EMPTY="]})")}};
    CHECK(scene.said("echo $OF_JOB $KEPT $SLURM_JOB_ID ${EMPTY-unset}.",
                     {"OF_JOB=job", "KEPT=job", "SLURM_JOB_ID=17", "EMPTY=job"}, {"--env", "KEPT"}) ==
          "hook job 17 .\n|0");
}

TEST_CASE("berth-hooks(7): an answer's mounts have their options, and nosuid and nodev always", "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    scene.folder.directory("data");
    scene.folder.file("data/name", "of the node\n");
    std::string data = scene.folder / "data";
    scene.hooks = {{"a", answering(cat(R"({"mounts":[{"hostPath":")", data, R"(","containerPath":"/new/place"},)",
                                       R"({"hostPath":")", data, R"(","containerPath":"/ro","options":)",
                                       R"(["ro","noexec","suid","dev"]},{"hostPath":"tmpfs",)",
                                       R"("containerPath":"/fast","type":"tmpfs"}],)",
                                       R"("deviceNodes":[{"path":"/dev/odd","hostPath":"/dev/zero"}]})"))}};
    CHECK(scene.said("read a < /new/place/name; echo $a; (echo x > /new/place/made) && echo written; "
                     "(echo x > /ro/made) 2> /dev/null || echo read-only; echo x > /fast/x && echo fast; "
                     "/usr/bin/head -c 2 /dev/odd | /usr/bin/wc -c") ==
          "of the node\nwritten\nread-only\nfast\n2\n|0");
    std::string flags = scene.said("while read -r a b c d where options rest; do case $where in /new/place|/ro|/fast) "
                                   "echo $where $options;; esac; done < /proc/self/mountinfo");
    for (const char* line : {"/new/place rw,nosuid,nodev,", "/ro ro,nosuid,nodev,noexec,", "/fast rw,nosuid,nodev,"})
        CHECK_THAT(flags, Contains(line));
}

TEST_CASE("berth-hooks(7): a folder or program that others than root can write to starts no container",
          "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    scene.hooks = {{"a", "true\n"}};
    for (const char* path : {"/etc/berth/hooks.d", "/etc/berth/hooks.d/a"}) {
        scene.prepare = [&] { ::chmod(path, 0775); };
        CHECK(scene.said("echo it runs") ==
              cat("berth: running the hooks of ", path, ": somebody else than root can write to it; run chown root ",
                  path, " and chmod go-w ", path, "\n|125"));
    }
}

TEST_CASE("berth-hooks(7): the request on standard input has the documented members", "[kernel][hooks]") {
    NEED_CONTAINERS();
    HookScene scene;
    const std::string request = scene.folder / "request";
    scene.hooks = {{"a", cat("cat > ", request, "\n")}};
    CHECK(scene.said("echo it runs", {"SLURM_JOB_ID=17", "OF_JOB=\"x\""}) == "it runs\n|0");
    std::string text = slurp(request);
    CHECK_THAT(text, StartsWith(R"({"version":1,"uid":0,"gid":0,"user":"root","group":"root","home":"/root",)"
                                R"("job":"17","imageEnvironment":{},"environment":{)") &&
                         Contains(R"("OF_JOB":"\"x\"")") && Contains(R"("SLURM_JOB_ID":"17")"));
}

TEST_CASE("berth-hooks(7): a hook of Enroot's adds its mounts and variables, and sees the job's",
          "[kernel][hooks][enroot]") {
    NEED_CONTAINERS();
    HookScene scene;
    const std::string data = scene.folder / "data", log = scene.folder / "log";
    std::filesystem::create_directory(data);
    sys::write_all(sys::open_file(data + "/file", O_WRONLY | O_CREAT, 0644).get(), "of the node", "file");
    // As sites write them: with Enroot's library, its program for mounts, and what they append to.
    scene.hooks = {{"50-site.enroot", cat(for_bash, R"(. "${ENROOT_LIBRARY_PATH}/common.sh"
common::checkcmd grep dirname
[ -n "${ENROOT_PID}" ] && [ -d "${ENROOT_ROOTFS}" ] || exit 1
mkdir -p "${ENROOT_ROOTFS}/made/below"
echo "ENROOT_SECRET=1
OF_JOB='${KIND-none} of the job'
OF_HOOK=first
OF_HOOK=second" >> "${ENROOT_ENVIRON}"
)", "echo '", data, " /at-once none x-create=dir,bind,ro' | enroot-mount --root \"${ENROOT_ROOTFS}\" -\n",
                                          "echo '", data, " /later' >> \"${ENROOT_MOUNTS}\"\n",
                                          "echo '/no/such /nowhere none bind,nofail' >> \"${ENROOT_MOUNTS}\"\n",
                                          "echo is not shown; dirname \"${ENROOT_ENVIRON}\" > ", log, "\n")}};
    CHECK(scene.said("echo $OF_JOB, $OF_HOOK, ${ENROOT_SECRET-no secret}; cat /at-once/file; echo; cat /later/file; "
                     "echo; [ -d /made/below ] && [ ! -e /nowhere ] && ! : 2> /dev/null > /at-once/new && "
                     ": > /later/new && echo ok",
                     {"KIND=dark"}, {"--root"}) ==
          "dark of the job, second, no secret\nof the node\nof the node\nok\n|0");
    // Nothing of its own stays.
    CHECK_FALSE(std::filesystem::exists(std::string(trimmed(slurp(log)))));
}

TEST_CASE("berth-hooks(7): a hook of Enroot's that fails, or wants what a hook cannot do, is one line",
          "[kernel][hooks][enroot]") {
    NEED_CONTAINERS();
    HookScene scene;
    auto with = [&](const std::string& script) {
        scene.hooks = {{"a.enroot", for_bash + script}};
        return scene.said("echo it runs");
    };
    auto failed = [](const std::string& why) { return "berth: hook " + why + "\n|125"; };
    const std::string path = "/etc/berth/hooks.d/a.enroot: ";
    CHECK(with("exit 0\n") == "it runs\n|0");
    CHECK(with(". \"$ENROOT_LIBRARY_PATH/common.sh\"; common::err 'no scratch here'\n") ==
          failed(path + "it ended with 1: no scratch here"));
    CHECK_THAT(with("echo x > \"$ENROOT_ROOTFS/motd\"\n"),
               StartsWith("berth: hook " + path + "it writes /motd below ENROOT_ROOTFS") && EndsWith("|125"));
    CHECK_THAT(with("ln -s /x \"$ENROOT_ROOTFS/link\"\n"), Contains("it writes /link below ENROOT_ROOTFS"));
    CHECK(with("echo nfs:/x /x nfs >> \"$ENROOT_MOUNTS\"\n") ==
          failed("a.enroot: line 1 of its ENROOT_MOUNTS: the type nfs is not possible (none for a bind, tmpfs, or "
                 "squashfs)"));
    CHECK_THAT(with("echo /no/such /x >> \"$ENROOT_MOUNTS\"\n"), Contains("mounting /no/such at /x (hook a.enroot)"));
    // Nothing stays of one that is killed either.
    const std::string log = scene.folder / "log";
    scene.hooks = {{"a.enroot", cat(for_bash, "dirname \"$ENROOT_ENVIRON\" > ", log, "; exec sleep 30\n")}};
    CHECK_THAT(scene.said("echo it runs", {}, {}, "[hooks]\ntimeout = 1\n"),
               Contains(path + "it took more than 1 s (hooks.timeout)"));
    REQUIRE_FALSE(trimmed(slurp(log)).empty());
    CHECK_FALSE(std::filesystem::exists(std::string(trimmed(slurp(log)))));
}
