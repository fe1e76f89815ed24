// A start, a save and an extraction at their system calls: killed there, with the call failing, and with the call
// interrupted. Nothing may stay, and a start that goes on must be the start that was asked for. CI takes one of so many
// calls, the test with the hidden tag [every-call] takes all (docs/adr/0085).
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/fixtures/failing_calls.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/named_support.hh"

namespace fs = std::filesystem;
using namespace berth;
using namespace berth::kernel_test;
using fixtures::Call;

namespace {

// What hostile row 64 gives a step.
constexpr auto patience = std::chrono::seconds(5);

/// What the loader and the C library do before the program: a failure there is theirs to tell.
const std::set<std::string> of_the_loader{
    "execve", "brk",     "mmap",     "openat",          "read",    "pread64",         "newfstatat", "fstat",
    "close",  "access",  "faccessat", "mprotect", "arch_prctl",      "munmap",  "set_tid_address", "set_robust_list",
    "rseq",   "futex",   "getrandom", "prlimit64",      "readlink"};

/// Calls that make a descriptor, which a process and a node can be out of.
const std::set<std::string> of_descriptors{
    "openat",  "openat2",  "open",       "socket",        "socketpair", "pipe2",     "dup",         "dup2", "dup3",
    "accept4", "eventfd2", "signalfd4",  "timerfd_create", "memfd_create", "pidfd_open", "open_tree", "fsopen",
    "fsmount", "fspick",   "epoll_create1", "inotify_init1"};

/// The kernel has no failure for these that a program could meet.
const std::set<std::string> never_fail{
    "futex",       "rt_sigaction", "rt_sigprocmask", "close",     "close_range", "munmap",  "getpid",    "gettid",
    "getppid",     "getuid",       "geteuid",        "getgid",    "getegid",     "exit",    "exit_group", "umask",
    "sched_yield", "set_robust_list", "rseq",        "arch_prctl", "poll",       "ppoll",   "wait4",     "waitid",
    "pause",       "clock_nanosleep", "nanosleep",   "restart_syscall", "rt_sigtimedwait", "tgkill", "kill",
    "pidfd_send_signal", "sched_getaffinity", "clock_gettime", "uname", "times"};

/// Those that a signal ends without having done anything.
const std::set<std::string> interruptible{"openat",  "openat2", "read",    "pread64", "write", "pwrite64", "recvmsg",
                                          "sendmsg", "connect", "accept4", "flock",   "poll",  "ppoll",    "wait4",
                                          "waitid",  "fsync",   "ftruncate", "getrandom", "syncfs", "epoll_wait"};

int failure_of(const Call& call) { return of_descriptors.contains(call.name()) ? EMFILE : ENOMEM; }

/// One of the program's calls after the other, from its own first one on, and what becomes of it.
struct Moment {
    std::function<int(const Call&)> fate;  ///< goes_on: the call is none that this sweep is about
    size_t often = SIZE_MAX;               ///< how many calls of one name in a thread are met
    size_t stride = 1;                     ///< one of so many of them, whatever their order is in a run
};

/// A program that is run again and again, each time with something else happening to it.
struct Subject {
    NamedScene scene;
    std::vector<std::string> arguments;
    std::vector<std::string> environment;

    explicit Subject(std::vector<std::string> words, const std::vector<std::string>& settings = {},
                     const std::string& name = "berth")
        : arguments(std::move(words)), program_(program_of(name)) {
        std::replace(arguments.begin(), arguments.end(), std::string("IMAGE"), scene.image);
        std::replace(arguments.begin(), arguments.end(), std::string("OUT"), scene.folder / "out/x.sqsh");
        scene.folder.directory("home");
        scene.folder.directory("out");
        environment = {"PATH=/bin:/usr/bin", "HOME=" + scene.folder / "home", "TMPDIR=" + scene.folder / "home",
                       "BERTH_DATA_PATH=" + scene.data, "BERTH_STORE_PATH=" + scene.folder / "store"};
        environment.insert(environment.end(), settings.begin(), settings.end());
    }

    fixtures::WatchedEnd run(const fixtures::Fate& fate) const {
        std::error_code none;
        fs::remove(log(), none);
        return fixtures::run_watched({program_, arguments, log(), environment, as_user_here, patience},
                                     fixtures::every_call(), fate);
    }
    std::string output() const { return sys::read_file(log()); }
    std::string log() const { return scene.folder / "home/log"; }

    /// All files below the scene's folder, and the sockets that are bound there.
    std::set<std::string> left() const {
        std::set<std::string> out;
        std::string folder = scene.folder / "";
        for (const auto& entry :
             fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied))
            if (entry.path() != log()) out.insert(entry.path().string().substr(folder.size()));
        for (const std::string& line : split(sys::read_file("/proc/net/unix", 16 << 20), '\n'))
            if (line.find(folder) != line.npos) out.insert("a socket that is open: " + line);
        return out;
    }

  private:
    static std::string program_of(const std::string& name) {
        return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / name;
    }
    std::string program_;
};

/// What one run came to.
struct Run {
    std::string at;  ///< the call that something happened to; empty: the sweep is at its end
    fixtures::WatchedEnd end;
    std::string output;
};

class Sweep {
  public:
    Sweep(const Subject& subject, Moment moment) : subject_(subject), moment_(std::move(moment)) {}

    Run next() {
        Run out;
        std::map<pid_t, size_t> threads;
        std::map<std::string, size_t> seen;
        std::set<pid_t> commands;
        bool begun = false;
        out.end = subject_.run([&](const Call& call) {
            begun = begun || !of_the_loader.contains(call.name());
            // What has executed a program inside is Berth no more.
            if (!begun || !out.at.empty() || commands.contains(call.thread())) return fixtures::goes_on;
            if (call.name() == "execve") commands.insert(call.thread());
            int fate = moment_.fate(call);
            if (fate == fixtures::goes_on) return fate;
            size_t thread = threads.emplace(call.thread(), threads.size()).first->second;
            std::string place = cat(call.name(), " of thread ", thread);
            size_t time = ++seen[place];
            std::string at = cat(place, ", number ", time);
            if (time > moment_.often || std::hash<std::string>()(at) % moment_.stride != 0) return fixtures::goes_on;
            if (!met_.insert(at).second) return fixtures::goes_on;
            out.at = at;
            return fate;
        });
        out.output = subject_.output();
        return out;
    }
    size_t count() const { return met_.size(); }

  private:
    const Subject& subject_;
    Moment moment_;
    std::set<std::string> met_;
};

std::string difference(const std::set<std::string>& before, const std::set<std::string>& now) {
    std::string out;
    for (const std::string& name : now)
        if (!before.contains(name)) out += cat("new: ", name, "\n");
    for (const std::string& name : before)
        if (!now.contains(name)) out += cat("gone: ", name, "\n");
    return out;
}

std::string mounts() { return sys::read_file("/proc/self/mountinfo", 16 << 20); }

/// The lines of Berth's own. Mounts of the container, which the program lists, begin with the name of berth, too.
std::vector<std::string> errors_in(const std::string& output) {
    std::vector<std::string> out;
    for (const std::string& line : split(output, '\n'))
        if (line.starts_with("berth: ") || line.starts_with("berth-pull: ")) out.push_back(line);
    return out;
}

/// With what differs between two runs taken out.
std::string comparable(const std::string& output) {
    // What has failed before it was done otherwise may have left other numbers free.
    static const std::regex changing("berth:c:\\S+|/berth-kernel-\\w+|/proc/self/fd/\\d+");
    // An overlay over what it has written before does not say that it has a UUID.
    static const std::regex new_overlay(",uuid=on");
    return std::regex_replace(std::regex_replace(output, changing, "N"), new_overlay, "");
}

/// Exit codes of what failed as it should: Berth, the command that could not be run, and that was not found.
bool is_failure(int code) { return code >= exit_failure && code <= exit_not_found; }

/// A program that goes on where another one was killed says so, if it fails.
bool is_told(const Run& run) { return !is_failure(run.end.code) || !errors_in(run.output).empty(); }

/// Has a subject run to its end while something happens to it at each moment; `after` looks at what is left.
size_t sweep(const Subject& subject, const Moment& moment, const std::function<void(const Run&)>& after) {
    std::string mounted = mounts();
    Sweep sweep(subject, moment);
    for (;;) {
        Run run = sweep.next();
        INFO("at " << (run.at.empty() ? "the end" : run.at) << ": exit code " << run.end.code << "\n" << run.output
                   << run.end.who);
        REQUIRE_FALSE(run.end.left);
        REQUIRE(mounts() == mounted);
        if (run.at.empty()) {
            CHECK(run.end.code == 0);
            break;
        }
        after(run);
    }
    return sweep.count();
}

int no_fate(const Call&) { return fixtures::goes_on; }

Moment killed_at(size_t stride) {
    return {[](const Call&) { return fixtures::is_killed; }, SIZE_MAX, stride};
}

/// To ask where the break is never fails.
bool asks_for_break(const Call& call) { return call.name() == "brk" && call.data().args[0] == 0; }

Moment failing_at(size_t often, size_t stride) {
    return {[](const Call& call) {
                bool goes_on = never_fail.contains(call.name()) || asks_for_break(call);
                return goes_on ? fixtures::goes_on : failure_of(call);
            },
            often, stride};
}

/// The calls of one name, all of them.
Moment failing(const std::string& name) {
    return {[name](const Call& call) { return call.name() == name ? failure_of(call) : fixtures::goes_on; }};
}

/// The kernel interrupts no call that does not wait (wait4(2), EINTR).
bool is_only_asking(const Call& call) {
    uint64_t options = call.name() == "wait4" ? call.data().args[2] : call.name() == "waitid" ? call.data().args[3] : 0;
    return (options & WNOHANG) != 0;
}

Moment interrupted_at(size_t often, size_t stride, const std::set<std::string>& names = interruptible) {
    return {[names](const Call& call) {
                return names.contains(call.name()) && !is_only_asking(call) ? EINTR : fixtures::goes_on;
            },
            often, stride};
}

/// A start that met a failure is told as one line, or is the start that was asked for.
void check_failure(const Run& run, const std::string& expected) {
    if (run.end.code == 0) {
        CHECK(comparable(run.output) == expected);
        return;
    }
    CHECK(is_failure(run.end.code));
    std::vector<std::string> errors = errors_in(run.output);
    // Why there was no command, and what that means for the file.
    if (errors.size() == 2 && errors[1].starts_with("berth: not saved as ") &&
        errors[1].ends_with(cat(": the command ended with ", run.end.code)))
        errors.pop_back();
    CHECK(errors.size() == 1);
}

/// What it says when nothing happens to it.
std::string undisturbed(const Subject& subject) {
    Run run{"", subject.run(no_fate), subject.output()};
    INFO(run.output);
    REQUIRE(run.end.code == 0);
    REQUIRE_FALSE(run.end.left);
    return comparable(run.output);
}

using Words = std::vector<std::string>;
const Words plain{"run", "IMAGE", "/bin/inside", "held"},
    own{"run", "--pid", "--ipc", "--uts", "--net", "IMAGE", "/bin/inside", "held"},
    named{"run", "--name", "c", "IMAGE", "/bin/inside", "held"},
    saving{"run", "--save", "OUT", "IMAGE", "/bin/inside", "held"};

/// Killed at a call, a start of a container without a name leaves nothing at all.
void kill_unnamed(const Words& words, size_t stride) {
    Subject subject(words);
    undisturbed(subject);
    std::set<std::string> before = subject.left();
    sweep(subject, killed_at(stride), [&](const Run& run) {
        CHECK(run.end.code != 0);
        CHECK(is_told(run));
        CHECK(difference(before, subject.left()) == "");
    });
}

/// The same of one with a name, which can be started again, and removed without a trace.
void kill_named(size_t often, size_t stride) {
    Subject subject(named);
    std::string expected = undisturbed(subject);
    CHECK(subject.scene.program("berth", {"rm", "c"}) == "|0");
    std::set<std::string> before = subject.left();
    Moment moment = killed_at(stride);
    moment.often = often;
    sweep(subject, moment, [&](const Run& run) {
        // A helper that is killed before the command joins is followed by another one, and one that is killed when the
        // command has ended takes nothing from it.
        CHECK((run.end.code != 0 || comparable(run.output) == expected));
        CHECK(undisturbed(subject) == expected);
        CHECK(subject.scene.program("berth", {"rm", "c"}) == "|0");
        CHECK(difference(before, subject.left()) == "");
    });
}

/// Extracted images lie in the store, where the next collection finds what a kill left half made.
void kill_extracting(size_t stride) {
    Subject subject(plain, {"BERTH_MOUNT_ENGINE=unpack"});
    std::string expected = undisturbed(subject);
    fs::remove_all(subject.scene.folder / "store");
    std::set<std::string> before = subject.left();
    sweep(subject, killed_at(stride), [&](const Run&) {
        CHECK(undisturbed(subject) == expected);
        CHECK_THAT(subject.scene.program("berth", {"gc"}), Catch::EndsWith("|0"));
        CHECK(fs::is_empty(subject.scene.folder / "store/tmp"));
        fs::remove_all(subject.scene.folder / "store");
        CHECK(difference(before, subject.left()) == "");
    });
}

/// A save leaves the whole file or none.
void kill_saving(const Words& words, size_t stride) {
    Subject subject(words);
    undisturbed(subject);
    fs::remove(subject.scene.folder / "out/x.sqsh");
    std::set<std::string> before = subject.left();
    sweep(subject, killed_at(stride), [&](const Run& run) {
        std::string file = subject.scene.folder / "out/x.sqsh";
        if (fs::exists(file)) CHECK(fixtures::Squashfs(file).content("etc/hello") == "hello\n");
        fs::remove(file);
        CHECK(is_told(run));
        CHECK(difference(before, subject.left()) == "");
    });
}

/// What fails in a start, or interrupts it, leaves nothing either.
void disturb(const Words& words, const Moment& moment, const std::vector<std::string>& settings = {}) {
    bool has_name = std::find(words.begin(), words.end(), "--name") != words.end();
    Subject subject(words, settings);
    auto tidy = [&] {
        if (has_name) CHECK(subject.scene.program("berth", {"rm", "c"}) == "|0");
        for (const char* name : {"out/x.sqsh", "store"}) fs::remove_all(subject.scene.folder / name);
    };
    std::string expected = undisturbed(subject);
    tidy();
    std::set<std::string> before = subject.left();
    sweep(subject, moment, [&](const Run& run) {
        check_failure(run, expected);
        // Whether it is there after a failure or not: it starts.
        if (has_name) CHECK(undisturbed(subject) == expected);
        if (run.end.code == 0 || has_name) tidy();
        // A store that was just made may stay: it is what the next start needs as well.
        fs::remove_all(subject.scene.folder / "store");
        CHECK(difference(before, subject.left()) == "");
    });
}

/// What only interrupts it changes nothing.
void interrupt(const Words& words, const Moment& moment) {
    Subject subject(words);
    std::string expected = undisturbed(subject);
    sweep(subject, moment, [&](const Run& run) {
        CHECK(run.end.code == 0);
        CHECK(comparable(run.output) == expected);
    });
}

}  // namespace

TEST_CASE("a start that is killed at any of its system calls leaves no process, mount, socket or file",
          "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    kill_unnamed(plain, 5);
    kill_unnamed(own, 29);
}

// Of two processes with one memory, the other would wait for the lock of malloc() for ever.
TEST_CASE("whatever process of a start is killed while it asks for memory, the others end", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    // So that it asks often, and not once for all that a start needs.
    Subject subject(plain, {"MALLOC_TOP_PAD_=16384"});
    undisturbed(subject);
    auto at_brk = [](const Call& call) {
        return call.name() == "brk" && !asks_for_break(call) ? fixtures::is_killed : fixtures::goes_on;
    };
    CHECK(sweep(subject, {at_brk}, [](const Run& run) { CHECK(run.end.code != 0); }) > 1);
}

TEST_CASE("a named container whose start is killed at any system call starts again, and goes without a trace",
          "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    kill_named(12, 31);
}

TEST_CASE("whoever is killed while an image is extracted leaves what the next collection removes",
          "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    kill_extracting(31);
}

TEST_CASE("a save that is killed at any of its system calls leaves the whole file, or none", "[kernel][save]") {
    NEED_CONTAINERS();
    kill_saving(saving, 31);
}

TEST_CASE("a call that fails in a start is one line, or the start is what was asked for", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    disturb(plain, failing_at(1, 1));
    disturb(own, failing_at(1, 9));
    disturb(named, failing_at(1, 9));
    disturb(plain, failing_at(1, 9), {"BERTH_MOUNT_ENGINE=unpack"});
}

// Without /proc/keys being hidden, for one, because it was not found.
TEST_CASE("where it cannot be learnt whether a file is there, a start goes not on without it", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    for (const Words& words : {plain, named}) disturb(words, failing("access"));
}

// Who waits for an answer of the file server would wait for ever.
TEST_CASE("an answer of the file server that cannot be sent at once is sent again", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    Subject subject(plain);
    std::string expected = undisturbed(subject);
    Moment moment = failing("writev");
    moment.often = 10;
    size_t met = sweep(subject, moment, [&](const Run& run) {
        CHECK(run.end.code == 0);
        CHECK(comparable(run.output) == expected);
    });
    CHECK(met > 0);
}

// They are told by shutting a connection down: the helper of a container with a name, and what removes written files.
TEST_CASE("a container ends where a process of its own cannot be told so", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    for (const Words& words : {plain, named}) {
        Subject subject(words);
        subject.environment.push_back("BERTH_MOUNT_UPPER=" + subject.scene.folder / "upper");
        std::string expected = undisturbed(subject);
        auto tidy = [&] { return words == plain || subject.scene.program("berth", {"rm", "c"}) == "|0"; };
        CHECK(tidy());
        size_t met = sweep(subject, failing("shutdown"), [&](const Run& run) {
            CHECK(run.end.code == 0);
            CHECK(comparable(run.output) == expected);
            CHECK(tidy());
        });
        CHECK(met > 0);
    }
}

TEST_CASE("a call that a signal interrupts in a start is made again", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    interrupt(plain, interrupted_at(1, 1));
    interrupt(named, interrupted_at(1, 3));
    interrupt(saving, interrupted_at(1, 3));
    // What is mounted may lie behind an automounter or on a network's file system.
    interrupt(plain, interrupted_at(SIZE_MAX, 1, {"openat"}));
}

// The same at every single call, and not at one of many: minutes each.
TEST_CASE("every call of a start, a save and an extraction is killed at", "[.][every-call]") {
    NEED_CONTAINERS();
    for (const Words& words : {plain, own}) kill_unnamed(words, 1);
    kill_named(SIZE_MAX, 1);
    kill_extracting(1);
    kill_saving(saving, 1);
}

TEST_CASE("every call of a start, a save and an extraction fails", "[.][every-call]") {
    NEED_CONTAINERS();
    for (const Words& words : {plain, own, named, saving}) disturb(words, failing_at(SIZE_MAX, 1));
    disturb(plain, failing_at(SIZE_MAX, 1), {"BERTH_MOUNT_ENGINE=unpack"});
}

TEST_CASE("every call of a start and a save is interrupted", "[.][every-call]") {
    NEED_CONTAINERS();
    for (const Words& words : {plain, own, named, saving}) interrupt(words, interrupted_at(SIZE_MAX, 1));
}
