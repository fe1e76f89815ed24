// A program that not even SIGKILL ends, as one that waits for a GPU's driver; a frozen one stands for it.
#include <signal.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace std::chrono_literals;

TEST_CASE("run_program: a program that SIGKILL does not end is left behind", "[kernel][root]") {
    NEED_ROOT();
    Folder folder;
    folder.directory("mount");
    const std::string mount = folder / "mount", cgroup = cat(mount, "/berth-run-", ::getpid());
    REQUIRE(::mount("berth-test", mount.c_str(), "cgroup", 0, "freezer") == 0);
    REQUIRE(::mkdir(cgroup.c_str(), 0755) == 0);
    auto begin = std::chrono::steady_clock::now();
    const std::string freeze = "echo $$ >&2; echo $$ > $0/cgroup.procs; echo FROZEN > $0/freezer.state; sleep 1000";
    ProgramAnswer answer = run_program("/bin/sh", {"-c", freeze, cgroup}, "", 1s);
    CHECK(answer.code == -1);
    CHECK(std::chrono::steady_clock::now() - begin < 10s * fixtures::slowness());
    uint64_t pid = 0;
    REQUIRE(parse_number(answer.complaint, INT32_MAX, pid));
    // It is there as long as it stands still.
    CHECK(::waitpid(static_cast<pid_t>(pid), nullptr, WNOHANG) == 0);
    sys::write_all(sys::open_file(cgroup + "/freezer.state", O_WRONLY).get(), "THAWED", "the freezer");
    int status = 0;
    CHECK(::waitpid(static_cast<pid_t>(pid), &status, 0) == static_cast<pid_t>(pid));
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    ::rmdir(cgroup.c_str());
    ::umount2(mount.c_str(), MNT_DETACH);
}
