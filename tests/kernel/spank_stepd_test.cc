// The whole plugin in a program that calls it as slurmstepd does (tests/fixtures/fake_slurmstepd.cc).
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/plan/messages.hh"
#include "spank/follow.hh"
#include "spank/helper.hh"
#include "spank/sentinel.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

std::string beside_the_tests(const std::string& name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

/// A helper that the test user may execute: the folder of the tests may be root's alone.
class Helper {
  public:
    explicit Helper(const std::string& mode) {
        char name[] = "/tmp/berth-helper-XXXXXX";
        if (mkdtemp(name) == nullptr) throw SysError("making a folder");
        folder_ = name;
        chmod(name, 0755);
        std::filesystem::copy_file(beside_the_tests("fake_slurmstepd"), folder_ + "/program");
        std::ofstream(path()) << "#!/bin/sh\nexec " << folder_ << "/program helper " << mode << "\n";
        chmod((folder_ + "/program").c_str(), 0755);
        chmod(path().c_str(), 0755);
    }
    ~Helper() { std::filesystem::remove_all(folder_); }
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;
    std::string path() const { return folder_ + "/berth"; }

  private:
    std::string folder_;
};

/// What a step with such a helper prints, standard error included.
std::string step(const std::string& mode, const std::string& flags) {
    Helper helper(mode);
    std::string plugin = std::filesystem::path(beside_the_tests("")).parent_path().parent_path() / "spank_berth.so";
    return output_of({"/bin/sh", "-c",
                      cat("exec ", beside_the_tests("fake_slurmstepd"), " ", plugin, " ", helper.path(), " ", flags,
                          " 2>&1")});
}

size_t count(const std::string& text, const std::string& part) {
    size_t out = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++out;
    return out;
}

/// KiB after "peak:".
long peak_of(const std::string& text) {
    size_t at = text.find("peak:");
    return at == text.npos ? -1 : std::stol(text.substr(at + 5));
}

const char* const nothing_left = "left: threads 0, sockets 0\n";
/// A release that this plugin was not built for, whose settings it does not read: it may have contain_spank.
const std::string other_release = "version=1.02.3";

}  // namespace

TEST_CASE("plugin: a step's task reaches the helper from slurmstepd's descriptors, and all of them go",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("answers", "");
    CHECK_THAT(out, Contains("berth: n1: answered in /usr\n") && Contains("task: code 7\n") && Contains(nothing_left));
    CHECK_THAT(out, !Contains("returned") && !Contains("ended with") && !Contains("log:") && !Contains("info:"));
}

TEST_CASE("plugin: with contain_spank, where callbacks share memory and no descriptors, a step is as any other",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("answers", "contain " + other_release);
    CHECK_THAT(out, Contains("berth: n1: answered in /usr\n") && Contains("task: code 7\n") && Contains(nothing_left));
    CHECK_THAT(out, !Contains("returned") && !Contains("ended with") && !Contains("log:"));

    std::string died = step("dies", "contain bare-task " + other_release);
    CHECK_THAT(died, Contains("file server on n1 died") && Contains("task: signal 9\n") && Contains(nothing_left));

    std::string saved = step("words", "contain save bare-task " + other_release);
    CHECK_THAT(saved, Contains("log: berth: n1: saved\n") && Contains("task: code 0\n") && Contains(nothing_left));
}

TEST_CASE("plugin: where Slurm is known not to have contain_spank and acts as with it, one line names the parameter",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("answers", "contain");
    CHECK(count(out, "berth: ") == 1);
    CHECK_THAT(out, Contains("contain_spank of SlurmdParameters") && Contains("task: code 125\n") &&
                        Contains(nothing_left));
}

TEST_CASE("plugin: settings of another release of Slurm's are not read, and slurmd's log says so",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("answers", other_release);
    CHECK_THAT(out, Contains("runs in Slurm 1.02.3") && Contains("berth: n1: answered in /usr\n") &&
                        Contains("task: code 7\n"));
    CHECK_THAT(step("answers", ""), !Contains("runs in Slurm"));
}

TEST_CASE("plugin: the epilog acts with the group of the job's steps, whatever group the user gave the folder in /run",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("ids", "save bare-task epilog");
    // The helper of the step, and that of the job's end.
    CHECK(count(out, "helper: gid 2001, groups 2001\n") == 2);
    CHECK(count(out, "helper: ") == 2);
}

TEST_CASE("plugin: a task that cannot be watched over is a line, and no error that drains the node",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("answers", "gone-task");
    CHECK_THAT(out, Contains("log: berth: n1: watching over a task: ") && !Contains("returned"));
    CHECK_THAT(out, Contains(nothing_left));
}

TEST_CASE("hostile: a helper that says more to slurmstepd than it may is killed, with one line and little memory",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    auto [mode, why] = GENERATE(table<std::string, std::string>({
        {"flood", "it is too long"},
        {"long", "a packet is too long"},
        {"records", "it has more than 8 records"},
        {"descriptor", "it carries too many descriptors"},
        {"lines", "it is one of more than 200"},
    }));
    std::string out = step(mode, "save bare-task");
    INFO(mode);
    CHECK_THAT(out, Contains(cat(why, "; the container's helper was killed")));
    CHECK(count(out, "log: ") == (mode == "lines" ? 201 : 1));
    CHECK_THAT(out, Contains(nothing_left) && Contains("task: code 0\n"));
    CHECK(peak_of(out) > 0);
    CHECK(peak_of(out) < 32 << 10);
}

TEST_CASE("plugin: what the helper says while tasks run is shown then, also what it says before it dies",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("talks", "bare-task");
    CHECK_THAT(out, Contains("log: berth: n1: working\n") && Contains("file server on n1 died"));
    CHECK_THAT(out, Contains("task: signal 9\n") && Contains(nothing_left));
    std::string contained = step("talks", "contain bare-task " + other_release);
    CHECK_THAT(contained, Contains("log: berth: n1: working\n") && Contains(nothing_left));
}

TEST_CASE("hostile: a helper that says more while tasks run than a pipe takes is killed, and the step ends",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    std::string out = step("babbles", "bare-task");
    CHECK_THAT(out, Contains("it is one of more than 20; the container's helper was killed"));
    CHECK(count(out, "log: berth: n1: line ") == 20);
    CHECK_THAT(out, Contains("task: signal 9\n") && Contains(nothing_left));
}

namespace {

std::string descriptors_of(pid_t pid) {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(cat("/proc/", pid, "/fd")))
        out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    std::string text;
    for (const std::string& number : out) text += cat(text.empty() ? "" : " ", number);
    return text;
}

void resume(pid_t pid, int signal) {
    ::ptrace(PTRACE_SYSCALL, pid, nullptr, static_cast<long>(signal));
}

/// True when the process, at a stop, is about to become user 2001 for good.
bool becomes_user(pid_t pid) {
    __ptrace_syscall_info info{};
    return ::ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0 && info.op == PTRACE_SYSCALL_INFO_ENTRY &&
           info.entry.nr == SYS_setresuid && info.entry.args[0] == 2001 && info.entry.args[2] == 2001;
}

/// Runs `body` in a child with all that it starts traced; the descriptors of each process that becomes the user, when
/// it is about to.
std::string descriptors_at_the_drop(const std::function<void()>& body) {
    pid_t child = fixtures::forked();
    if (child == 0) {
        ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        ::raise(SIGSTOP);
        body();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACECLONE | PTRACE_O_TRACEVFORK |
                   PTRACE_O_EXITKILL;
    if (::ptrace(PTRACE_SETOPTIONS, child, nullptr, options) != 0) throw SysError("tracing a child");
    resume(child, 0);
    std::string seen;
    for (pid_t pid; (pid = ::waitpid(-1, &status, __WALL)) > 0;) {
        if (!WIFSTOPPED(status)) continue;
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80) && becomes_user(pid)) seen += cat("[", descriptors_of(pid), "]");
        resume(pid, signal == SIGTRAP || signal == (SIGTRAP | 0x80) || signal == SIGSTOP ? 0 : signal);
    }
    return seen;
}

}  // namespace

TEST_CASE("plugin: the helper has nothing of slurmstepd's open any more when it becomes the user",
          "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    Helper helper("dies");
    Fd leak = sys::open_file("/", O_RDONLY | O_DIRECTORY);
    std::string seen = descriptors_at_the_drop([&] {
        try {
            spank::StartedHelper started = spank::start_helper(helper.path(), {2001, 2001, {2001}});
            started.socket.reset();
            spank::wait_for_helper(started.process.get(), 5000);
        } catch (const Error& error) {
            fprintf(stderr, "%s\n", error.what());
        }
    });
    CHECK(seen == "[0 1 2 3]");
}

namespace {

/// A cgroup of a name that Slurm gives to steps.
class StepGroup {
  public:
    StepGroup() {
        std::string root = "/sys/fs/cgroup/freezer";
        if (::access(root.c_str(), W_OK) != 0) root = "/sys/fs/cgroup";
        top_ = cat(root, "/berth-test-", ::getpid());
        if (::mkdir(top_.c_str(), 0755) != 0 || ::mkdir(path().c_str(), 0755) != 0) throw SysError("making a cgroup");
    }
    ~StepGroup() {
        remove();
        ::rmdir(top_.c_str());
    }
    StepGroup(const StepGroup&) = delete;
    StepGroup& operator=(const StepGroup&) = delete;
    std::string path() const { return top_ + "/step_0"; }
    void add(pid_t pid) const { write_to(path() + "/cgroup.procs", std::to_string(pid)); }
    void remove() const {
        // A process that was reaped just now may still be in it.
        for (int i = 0; i < 100 && ::rmdir(path().c_str()) != 0 && errno == EBUSY; ++i) ::usleep(20'000);
    }

  private:
    std::string top_;
};

pid_t paused() {
    pid_t child = fixtures::forked();
    if (child == 0)
        for (;;) ::pause();
    return child;
}

void end_of(pid_t child) {
    fixtures::kill_one(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
}

/// Whether a sentinel hears of signals that has learnt from a task in Slurm's cgroup, or in none; and the cgroup went
/// with that task.
std::string sees(bool learns, bool in_group, bool group_goes) {
    Outcome seen = in_child([&] {
        StepGroup group;
        pid_t task = paused();
        if (in_group) group.add(task);
        std::string out;
        {
            spank::Sentinel sentinel;
            if (learns) sentinel.learn_from(task);
            end_of(task);
            if (group_goes) group.remove();
            sentinel.start();
            out = sentinel.sees_signals() ? "sees" : "blind";
        }
        return out;
    });
    return seen.error.empty() ? seen.text : seen.error;
}

}  // namespace

TEST_CASE("plugin: the sentinel of a save knows whether Slurm's signals can reach it", "[kernel][root][spank][stepd]") {
    NEED_ROOT();
    CHECK(sees(true, true, false) == "sees");
    CHECK(sees(true, false, false) == "sees");
    CHECK(sees(true, true, true) == "blind");
    CHECK(sees(false, true, false) == "blind");
}

TEST_CASE("plugin: a save whose end Slurm could not tell of is waited for no longer than its limit",
          "[kernel][root][spank][stepd]") {
    auto [ours, helper] = make_channel();
    auto [sentinel, other] = make_channel();
    std::vector<std::string> lines;
    auto show = [&](const std::string& line) { lines.push_back(line); };
    CHECK(spank::follow_save(ours.get(), sentinel.get(), 50, show) == spank::SaveEnd::over_time);
    send_message(helper.get(), plan::progress_message("a\nb"));
    helper.reset();
    CHECK(spank::follow_save(ours.get(), sentinel.get(), -1, show) == spank::SaveEnd::done);
    CHECK(lines == std::vector<std::string>{"a\\x0ab"});
    auto [again, talker] = make_channel();
    other.reset();
    CHECK(spank::follow_save(again.get(), sentinel.get(), -1, show) == spank::SaveEnd::cancelled);
}
