// Tasks that cannot end, by what the kernel shows of them. A frozen process stands for one that waits for a file
// server: neither dies of SIGKILL.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/inhabitants.hh"
#include "spank/overdue.hh"
#include "spank/watch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/root.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::spank;

namespace {

/// Processes of two threads, or of one that is left of two, in a cgroup that stands still. Only version 1 keeps killed
/// ones, and it can be mounted beside version 2.
class Frozen {
  public:
    Frozen() : folder_(cat(mount_ / "mount/berth-test-", getpid())) {
        mount_.directory("mount");
        if (::mount("berth-test", (mount_ / "mount").c_str(), "cgroup", 0, "freezer") != 0)
            throw SysError("mounting the freezer");
        if (::mkdir(folder_.c_str(), 0755) != 0) throw SysError("making " + folder_);
    }
    ~Frozen() {
        for (pid_t child : children_) fixtures::kill_one(child, SIGKILL);
        thaw();
        for (pid_t child : children_) ::waitpid(child, nullptr, 0);
        ::rmdir(folder_.c_str());
        ::umount2((mount_ / "mount").c_str(), MNT_DETACH);
    }
    Frozen(const Frozen&) = delete;
    Frozen& operator=(const Frozen&) = delete;

    pid_t add(bool first_thread_ends = false) {
        auto [ready, its] = sys::make_pipe();
        pid_t child = fixtures::forked();
        if (child == 0) {
            // The test's own handlers would count.
            ::signal(SIGTERM, SIG_DFL);
            std::thread other(sleep_for_ever);
            its.reset();
            // Not the process.
            if (first_thread_ends) ::syscall(SYS_exit, 0);
            sleep_for_ever();
        }
        its.reset();
        char byte;
        [[maybe_unused]] ssize_t got = ::read(ready.get(), &byte, 1);
        children_.push_back(child);
        // The first thread is on its way out for a moment before it has ended.
        auto status = [&] { return sys::read_file(cat("/proc/", child, "/status")); };
        while (first_thread_ends && status().find("State:\tZ") == std::string::npos) ::usleep(1000);
        write_to(folder_ + "/cgroup.procs", std::to_string(child));
        return child;
    }
    void freeze() const {
        write_to(folder_ + "/freezer.state", "FROZEN");
        while (sys::read_file(folder_ + "/freezer.state") != "FROZEN\n") ::usleep(1000);
    }
    void thaw() const { write_to(folder_ + "/freezer.state", "THAWED"); }

  private:
    /// One that is frozen in pause() has a signal pending for it, before which another one is not looked at.
    static void sleep_for_ever() {
        for (;;) ::sleep(1000);
    }

    Folder mount_;
    std::string folder_;
    std::vector<pid_t> children_;
};

std::atomic<pid_t> overdue;

/// True when the kernel has told a thread of the process to end.
bool is_ending(pid_t pid) {
    std::string folder = cat("/proc/", pid, "/task");
    for (const auto& thread : std::filesystem::directory_iterator(folder))
        if (sys::read_file(thread.path().string() + "/status").find("SigPnd:\t0000000000000100") != std::string::npos)
            return true;
    return false;
}

/// A process that SIGTERM ends. The kernel decides that at once only while a thread has no other signal to look at,
/// which the freezer's own may be: then the scene is set again.
void check_termination(bool first_thread_ends) {
    for (int attempt = 0; attempt < 50; ++attempt) {
        Frozen tasks;
        pid_t ended = tasks.add(first_thread_ends);
        tasks.freeze();
        CHECK(fate_of(ended) == Fate::lives);
        fixtures::kill_one(ended, SIGTERM);
        if (!is_ending(ended)) continue;
        CHECK(fate_of(ended) == Fate::ends);
        // The kernel drops what comes after the end.
        fixtures::kill_one(ended, SIGKILL);
        CHECK(fate_of(ended) == Fate::ends);
        return;
    }
    FAIL("no frozen process took SIGTERM at once");
}

}  // namespace

TEST_CASE("overdue: what was sent to a process that cannot end is seen, also when its first thread has ended",
          "[kernel][root][spank]") {
    NEED_ROOT();
    {
        Frozen tasks;
        pid_t lives = tasks.add(), killed = tasks.add();
        tasks.freeze();
        fixtures::kill_one(killed, SIGKILL);
        CHECK(fate_of(lives) == Fate::lives);
        CHECK(fate_of(killed) == Fate::killed);
    }
    CHECK(fate_of(0x3ffffff) == std::nullopt);
    for (bool first_thread_ends : {false, true}) check_termination(first_thread_ends);
}

TEST_CASE("overdue: the file server of tasks that cannot end is ended five seconds after SIGKILL, not before",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Frozen tasks;
    pid_t first = tasks.add(), second = tasks.add();
    pid_t helper = fixtures::forked();
    if (helper == 0) {
        for (;;) ::pause();
    }
    Fd process = sys::pidfd_open(helper);
    overdue = 0;
    Watch watch;
    watch.limit_end(std::chrono::seconds(0), [](pid_t task) { overdue = task; });
    for (pid_t task : {first, second}) watch.add_task(task, process.get(), [] {});
    tasks.freeze();
    fixtures::kill_one(first, SIGKILL);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    auto killed = std::chrono::steady_clock::now();
    fixtures::kill_one(second, SIGKILL);
    fixtures::comes_true([] { return overdue != 0; }, std::chrono::seconds(30));
    CHECK(std::chrono::steady_clock::now() - killed >= std::chrono::seconds(5));
    CHECK((overdue == first || overdue == second));
    watch.stop();
    fixtures::kill_one(helper, SIGKILL);
    ::waitpid(helper, nullptr, 0);
}

namespace {

/// A child that enters the user namespace of `other`, or a new one, and waits; as the program `sleep`, where that is
/// given.
pid_t in_user_namespace(pid_t other = 0, const std::string& sleep = {}) {
    Fd theirs = other != 0 ? sys::open_file(cat("/proc/", other, "/ns/user"), O_RDONLY) : Fd();
    auto [ready, its] = sys::make_pipe();
    pid_t child = fixtures::forked();
    if (child == 0) {
        if (theirs ? ::setns(theirs.get(), CLONE_NEWUSER) != 0 : sys::unshare(CLONE_NEWUSER) != 0) ::_exit(1);
        if (!sleep.empty()) ::execl(sleep.c_str(), "sleep", "1000", nullptr), ::_exit(1);
        its.reset();
        for (;;) ::pause();
    }
    its.reset();
    char byte;
    [[maybe_unused]] ssize_t got = ::read(ready.get(), &byte, 1);
    return child;
}

bool lives(pid_t child) { return ::waitpid(child, nullptr, WNOHANG) == 0; }

void end(pid_t child) {
    fixtures::kill_one(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}

}  // namespace

TEST_CASE("overdue: the server of a named container is found by its program also after that was replaced",
          "[kernel][root][spank][release][one-thread]") {
    NEED_ROOT();
    Folder folder;
    std::string program = folder / "berth";
    std::filesystem::copy_file("/bin/sleep", program);
    // The folder is the test user's, and root in another user namespace has no right to it.
    REQUIRE(::chmod((folder / "").c_str(), 0755) == 0);
    pid_t task = in_user_namespace(), server = in_user_namespace(task, program), other = in_user_namespace(0, program);
    std::filesystem::copy_file("/bin/sleep", folder / "new");
    std::filesystem::rename(folder / "new", program);
    REQUIRE(lives(server));
    REQUIRE(lives(other));
    kill_server_of(task, program);
    CHECK(fixtures::comes_true([&] { return !lives(server); }, std::chrono::seconds(10)));
    CHECK(lives(task));
    CHECK(lives(other));
    end(task);
    end(other);
}

TEST_CASE("overdue: the server of a named container is found by its cgroup or its program, and nobody else is hit",
          "[kernel][root][spank]") {
    NEED_ROOT();
    bool hybrid = ::access("/sys/fs/cgroup/unified/cgroup.procs", F_OK) == 0;
    std::string leaf = cat("/sys/fs/cgroup/", hybrid ? "unified/" : "", "berth_test");
    REQUIRE(::mkdir(leaf.c_str(), 0755) == 0);
    pid_t task = in_user_namespace(), server = in_user_namespace(task), other = in_user_namespace();
    for (pid_t child : {server, other}) write_to(leaf + "/cgroup.procs", std::to_string(child));
    kill_server_of(getpid(), "/proc/self/exe");
    kill_server_of(task, "/bin/sh");
    CHECK(::waitpid(server, nullptr, 0) == server);
    CHECK(lives(task));
    CHECK(lives(other));
    // All of these execute this program.
    kill_server_of(task, "/proc/self/exe");
    CHECK(::waitpid(task, nullptr, 0) == task);
    CHECK(lives(other));
    end(other);
    CHECK(::rmdir(leaf.c_str()) == 0);
}
