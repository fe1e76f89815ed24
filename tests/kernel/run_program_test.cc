// A program that not even SIGKILL ends, as one that waits for a GPU's driver; a frozen one stands for it.
#include <signal.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/fd.hh"
#include "runtime/base/text.hh"
#include "runtime/host/run_program.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace std::chrono_literals;

namespace {

/// A cgroup whose processes can be frozen; at its end they go on.
class Freezer {
  public:
    explicit Freezer(const std::string& mount) : mount_(mount), path_(cat(mount, "/berth-run-", ::getpid())) {
        REQUIRE(::mount("berth-test", mount_.c_str(), "cgroup", 0, "freezer") == 0);
        REQUIRE(::mkdir(path_.c_str(), 0755) == 0);
    }
    ~Freezer() {
        thaw();
        ::rmdir(path_.c_str());
        ::umount2(mount_.c_str(), MNT_DETACH);
    }
    Freezer(const Freezer&) = delete;
    Freezer& operator=(const Freezer&) = delete;
    const std::string& path() const { return path_; }
    void thaw() const {
        Fd state(::open((path_ + "/freezer.state").c_str(), O_WRONLY | O_CLOEXEC));
        CHECK(::write(state.get(), "THAWED", 6) == 6);
    }

  private:
    std::string mount_, path_;
};

}  // namespace

TEST_CASE("run_program: a program that SIGKILL does not end is left behind", "[kernel][root]") {
    NEED_ROOT();
    Folder folder;
    folder.directory("mount");
    Freezer freezer(folder / "mount");
    auto begin = std::chrono::steady_clock::now();
    const std::string freeze = "echo $$ >&2; echo $$ > $0/cgroup.procs; echo FROZEN > $0/freezer.state; sleep 1000";
    ProgramAnswer answer = run_program("/bin/sh", {"-c", freeze, freezer.path()}, "", 5s);
    CHECK(answer.code == -1);
    CHECK(std::chrono::steady_clock::now() - begin < 14s * fixtures::slowness());
    uint64_t pid = 0;
    REQUIRE(parse_number(answer.complaint, INT32_MAX, pid));
    // It is there as long as it stands still.
    CHECK(::waitpid(static_cast<pid_t>(pid), nullptr, WNOHANG) == 0);
    freezer.thaw();
    int status = 0;
    CHECK(::waitpid(static_cast<pid_t>(pid), &status, 0) == static_cast<pid_t>(pid));
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}
