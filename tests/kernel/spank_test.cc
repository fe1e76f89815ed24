// The plugin's acting parts: the drop to the user, the join, and the end of a container whose server has died.
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "runtime/base/channel.hh"
#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/sandbox/seccomp.hh"
#include "spank/helper.hh"
#include "spank/inhabitants.hh"
#include "spank/join.hh"
#include "spank/watch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/root.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

/// Everything that comes out of a socket until its end.
std::string all_of(int socket) {
    std::string out;
    char buffer[65536];
    for (ssize_t size; (size = recv(socket, buffer, sizeof buffer, 0)) > 0;)
        out.append(buffer, static_cast<size_t>(size));
    return out;
}

/// Puts the process in the state in which slurmstepd calls slurm_spank_user_init.
void as_in_user_init(const std::vector<gid_t>& groups) {
    write_to("/proc/self/oom_score_adj", "-1000");
    if (setegid(2001) != 0 || setgroups(groups.size(), groups.data()) != 0 || seteuid(2001) != 0)
        throw SysError("acting as slurmstepd");
}

std::string status_of_helper(const std::string& script) {
    Program program(script);
    Outcome outcome = in_child([&] {
        std::vector<gid_t> groups = {2001, 2100};
        as_in_user_init(groups);
        spank::StartedHelper helper = spank::start_helper(program.path(), {2001, 2001, groups});
        std::string out = all_of(helper.socket.get());
        spank::wait_for_helper(helper.process.get(), 5000);
        return out;
    });
    CHECK(outcome.error == "");
    return outcome.text;
}

}  // namespace

TEST_CASE("plugin: the helper is the user and nothing of slurmstepd is left in it", "[kernel][root][spank]") {
    NEED_ROOT();
    Fd leak = sys::open_file("/", O_RDONLY);
    fcntl(leak.get(), F_SETFD, 0);
    setenv("LD_BERTH_TEST", "evil", 1);
    std::string out = status_of_helper(
        "#!/bin/sh\n"
        "cat /proc/self/status >&3\n"
        "echo arguments: $* >&3; echo score: $(cat /proc/$$/oom_score_adj) >&3\n"
        "echo environment: $(tr '\\0' ' ' < /proc/$$/environ) >&3\n"
        "ls -l /proc/$$/fd >&3\n"
        "echo cwd: $(pwd) session: $(cut -d' ' -f6 /proc/$$/stat) $$ >&3\n");
    unsetenv("LD_BERTH_TEST");
    CHECK_THAT(out, Contains("Uid:\t2001\t2001\t2001\t2001\n") && Contains("Gid:\t2001\t2001\t2001\t2001\n") &&
                        Contains("Groups:\t2001 2100 \n"));
    CHECK_THAT(out, Contains("CapPrm:\t0000000000000000") && Contains("CapEff:\t0000000000000000") &&
                        Contains("NoNewPrivs:\t1"));
    CHECK_THAT(out, Contains("SigBlk:\t0000000000000000"));
    CHECK_THAT(out, Contains("arguments: step\n") && Contains("score: 0\n") &&
                        Contains("environment: PATH=/usr/local/bin:/usr/bin:/bin\n"));
    CHECK_THAT(out, Contains(" 0 -> /dev/null\n") && Contains(" 2 -> /dev/null\n") && Contains(" 3 -> socket:"));
    // The shell itself has its script as descriptor 10, and its own standard output, which the listing has redirected,
    // as 11.
    CHECK_THAT(out, Contains(" 11 -> /dev/null\n"));
    CHECK_THAT(out, !Contains(" 4 -> ") && !Contains(" 5 -> ") && !Contains(" 6 -> ") && !Contains(" -> /\n"));
    CHECK_THAT(out, Contains("cwd: / session: "));
}

TEST_CASE("plugin: polite signals leave the helper alone, and a stubborn one is killed", "[kernel][root][spank]") {
    NEED_ROOT();
    Program program("#!/bin/sh\nkill -TERM $$; kill -HUP $$; kill -INT $$; echo alive >&3\nexec sleep 600\n");
    Outcome outcome = in_child([&] {
        spank::StartedHelper helper = spank::start_helper(program.path(), {2001, 2001, {2001}});
        char buffer[16] = "";
        if (recv(helper.socket.get(), buffer, sizeof buffer - 1, 0) < 0) throw SysError("receiving");
        spank::wait_for_helper(helper.process.get(), 100);
        pollfd ended{helper.process.get(), POLLIN, 0};
        return cat(buffer, poll(&ended, 1, 0));
    });
    CHECK(outcome.text == "alive\n1");
}

TEST_CASE("plugin: a helper that somebody else can write to is refused", "[kernel][root][spank]") {
    NEED_ROOT();
    Program program("#!/bin/sh\n");
    chmod(program.path().c_str(), 0775);
    CHECK_THROWS_WITH(spank::start_helper(program.path(), {2001, 2001, {}}), Contains("nobody else can write to"));
    chmod(program.path().c_str(), 0755);
    REQUIRE(chown(program.path().c_str(), 2001, 2001) == 0);
    CHECK_THROWS_WITH(spank::start_helper(program.path(), {2001, 2001, {}}), Contains("a file of root's"));
    CHECK_THROWS_WITH(spank::start_helper(program.path() + "x", {2001, 2001, {}}),
                      Contains("helper= in plugstack.conf"));
}

namespace {

/// Forks a server that hands its namespaces over `socket` and stays.
pid_t container_server(int socket) {
    pid_t child = fixtures::forked();
    if (child != 0) return child;
    as_user_here();
    try {
        plan::Request request;
        request.remap_root = true;
        StartedContainer container = start_container(plan_for(request), make_image(fill_sample), {});
        send_message(socket, {}, {container.user_namespace.get(), container.mount_namespace.get()});
    } catch (const std::exception& error) {
        fprintf(stderr, "in the server: %s\n", error.what());
        _exit(1);
    }
    for (;;) pause();
}

void end(pid_t child) {
    fixtures::kill_one(child, SIGKILL);
    waitpid(child, nullptr, 0);
}

/// By which the child tells its outcome: a task closes what its command would not get.
void keep_pipes() {
    for (int fd = STDERR_FILENO + 1; fd < 64; ++fd)
        if (struct stat status {}; ::fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) ::fcntl(fd, F_SETFD, 0);
}

}  // namespace

TEST_CASE("plugin: a task that joins has the root, no capabilities, no_new_privs and the filter", "[kernel][spank]") {
    NEED_CONTAINERS();
    auto [ours, theirs] = make_channel();
    pid_t server = container_server(theirs.get());
    theirs.reset();
    auto received = receive_message(ours.get(), 10'000);
    REQUIRE(received);
    REQUIRE(received->descriptors.size() == 2);
    std::vector<Fd>& namespaces = received->descriptors;
    Outcome outcome = as_user([&] {
        keep_pipes();
        spank::enter_namespaces(std::move(namespaces), {"/tmp", {}, {}});
        spank::give_up_privileges(
            sandbox::system_call_filter({.confine = true, .fake_root = true, .allow = {}, .deny = {}}));
        std::string cwd(100, '\0');
        cwd = getcwd(cwd.data(), cwd.size());
        return in_order({cwd, std::to_string(getuid()), verdict(access("/bin/inside", X_OK)),
                         verdict(chown("/tmp", 5, 5)), status_line("CapBnd"), status_line("CapPrm"),
                         status_line("NoNewPrivs"), status_line("Seccomp")});
    });
    CHECK(outcome.error == "");
    CHECK(outcome.text == "/tmp 0 ok ok 0000000000000000 0000000000000000 1 2");

    Outcome escape = as_user([&] {
        std::string link = cat("/proc/self/fd/", namespaces[0].get());
        keep_pipes();
        spank::enter_namespaces(std::move(namespaces), {link, {}, {}});
        return std::string("entered");
    });
    CHECK(escape.text == "");
    CHECK_THAT(escape.error, Contains("/proc/self/fd/"));

    Outcome hidden = as_user([&] {
        // As slurmstepd has its tasks.
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        Fd folder = sys::open_file("/", O_PATH | O_DIRECTORY);
        Fd of_launcher(::dup(folder.get()));
        keep_pipes();
        spank::enter_namespaces(std::move(namespaces), {"/tmp", {}, {}});
        std::string left;
        for (int fd : {folder.get(), of_launcher.get()}) left += ::fcntl(fd, F_GETFD) < 0 ? " closed" : " open";
        return cat("dumpable ", ::prctl(PR_GET_DUMPABLE, 0, 0, 0, 0), left);
    });
    CHECK(hidden.error == "");
    // What a launcher (PMI) has opened for the command is the command's.
    CHECK(hidden.text == "dumpable 0 closed open");
    end(server);
}

TEST_CASE("plugin: a signal that slurmstepd catches ends a task that waits, one that it ignores does not",
          "[kernel][spank]") {
    auto end_by = [](int number) {
        pid_t task = fixtures::forked();
        if (task == 0) {
            ::signal(SIGTERM, [](int) {});
            ::signal(SIGUSR1, SIG_IGN);
            spank::drop_inherited_handlers();
            ::raise(number);
            ::_exit(0);
        }
        int status = 0;
        ::waitpid(task, &status, 0);
        return code_of(status);
    };
    CHECK(end_by(SIGTERM) == 1000 + SIGTERM);
    CHECK(end_by(SIGUSR1) == 0);
}

TEST_CASE("hostile row 65: what lives in a container can be ended from outside, and nothing else",
          "[kernel][root][spank]") {
    NEED_ROOT();
    NEED_CONTAINERS();
    auto [ours, theirs] = make_channel();
    pid_t server = container_server(theirs.get());
    theirs.reset();
    REQUIRE(receive_message(ours.get(), 10'000));
    pid_t bystander = fixtures::forked();
    if (bystander == 0) {
        as_user_here();
        for (;;) pause();
    }
    auto inside = spank::user_namespace_of(server);
    REQUIRE(inside);
    CHECK(inside != spank::user_namespace_of(getpid()));
    spank::kill_inhabitants(*inside);
    int status = 0;
    CHECK(waitpid(server, &status, 0) == server);
    CHECK(WIFSIGNALED(status));
    CHECK(waitpid(bystander, &status, WNOHANG) == 0);
    end(bystander);
}

namespace {

pid_t sleeping_child(pid_t number = 0) {
    clone_args how{};
    how.exit_signal = SIGCHLD;
    if (number != 0) how.set_tid = reinterpret_cast<uint64_t>(&number), how.set_tid_size = 1;
    auto child = static_cast<pid_t>(::syscall(SYS_clone3, &how, sizeof how));
    if (child == 0) {
        // What another user starts is in another session than slurmstepd.
        if (number != 0) ::setsid();
        for (;;) ::pause();
    }
    if (number == 0) ::setpgid(child, child);
    while (number != 0 && ::getsid(child) != child) ::usleep(1000);
    return child;
}

/// As the first process of a pid namespace, where it can say which number a process gets. What it says is its exit
/// code.
int number_given_away() {
    pid_t helper = sleeping_child(), first = sleeping_child(), second = sleeping_child();
    Fd process = sys::pidfd_open(helper);
    spank::Watch watch;
    watch.spare_others();
    for (pid_t task : {first, second}) watch.add_task(task, process.get(), [] {});
    fixtures::kill_one(first, SIGKILL);
    ::waitpid(first, nullptr, 0);
    if (sleeping_child(first) != first) return 2;
    fixtures::kill_one(helper, SIGKILL);
    ::waitpid(second, nullptr, 0);
    watch.stop();
    return ::waitpid(first, nullptr, WNOHANG) == 0 ? 0 : 1;
}

}  // namespace

TEST_CASE("hostile: who has got the number of a task that has ended is not killed with the others",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Outcome seen = in_child([] {
        if (int number = sys::unshare(CLONE_NEWPID); number != 0) throw SysError("a pid namespace", number);
        pid_t init = fixtures::forked();
        if (init == 0) ::_exit(number_given_away());
        int status = 0;
        ::waitpid(init, &status, 0);
        return cat(WEXITSTATUS(status));
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "0");
}

namespace {

int heard_at = -1;
std::atomic<int> heard = 0;

/// True until the other end says "e".
bool hear_byte() {
    char byte = 0;
    if (::read(heard_at, &byte, 1) != 1) return false;
    ++heard;
    return byte != 'e';
}

}  // namespace

TEST_CASE("plugin: what the helper says while tasks run is heard, until it is no longer listened to",
          "[kernel][root][spank]") {
    auto [ours, helpers] = make_channel();
    pid_t helper = sleeping_child(), task = sleeping_child();
    Fd process = sys::pidfd_open(helper);
    heard_at = ours.get();
    heard = 0;
    spank::Watch watch;
    watch.listen(ours.get(), hear_byte);
    watch.add_task(task, process.get(), [] {});
    auto say = [&, said = helpers.get()](char byte, int until) {
        CHECK(::send(said, &byte, 1, 0) == 1);
        for (int i = 0; i < 2000 && heard < until; ++i) ::usleep(10'000);
        CHECK(heard == until);
    };
    say('a', 1);
    say('b', 2);
    say('e', 3);
    char more = 'x';
    CHECK(::send(helpers.get(), &more, 1, 0) == 1);
    watch.stop();
    CHECK(heard == 3);
    end(helper);
    end(task);
}

namespace {

spank::Watch* watch_that_hears = nullptr;

bool hear_end() {
    char byte = 0;
    if (::read(heard_at, &byte, 1) == 1) watch_that_hears->end_tasks();
    return true;
}

}  // namespace

TEST_CASE("plugin: when the helper says that the container is no more, the tasks end, though the helper lives",
          "[kernel][root][spank]") {
    NEED_ROOT();
    auto [ours, helpers] = make_channel();
    pid_t helper = sleeping_child(), task = sleeping_child();
    Fd process = sys::pidfd_open(helper);
    heard_at = ours.get();
    heard = 0;
    spank::Watch watch;
    watch_that_hears = &watch;
    watch.spare_others();
    watch.listen(ours.get(), hear_end);
    // What has been said already is not said again.
    watch.add_task(task, process.get(), [] { ++heard; });
    CHECK(::send(helpers.get(), "e", 1, 0) == 1);
    int status = 0;
    CHECK(waitpid(task, &status, 0) == task);
    CHECK(WIFSIGNALED(status));
    watch.stop();
    CHECK(heard == 0);
    CHECK(waitpid(helper, &status, WNOHANG) == 0);
    end(helper);
}

TEST_CASE("plugin: from a user namespace of the job's own no container of another one is entered, and that is said",
          "[kernel][spank]") {
    NEED_CONTAINERS();
    auto [ours, theirs] = make_channel();
    pid_t server = container_server(theirs.get());
    theirs.reset();
    auto received = receive_message(ours.get(), 10'000);
    REQUIRE(received);
    Outcome seen = as_user([&] {
        keep_pipes();
        if (int number = sys::unshare(CLONE_NEWUSER); number != 0) throw SysError("a user namespace", number);
        spank::enter_namespaces(std::move(received->descriptors), {"/tmp", {}, {}});
        return std::string("entered");
    });
    CHECK(seen.text == "");
    CHECK_THAT(seen.error, Contains("joining the container's user namespace: ") && Contains("CLONE_NEWUSER"));
    end(server);
}

/// Moves this process into a user namespace in which all users of the machine are, as Slurm's namespace/linux makes it
/// (CLONE_NEWUSER): the map reads as that of the first one.
void enter_namespace_of_all_users() {
    auto [reading, writing] = sys::make_pipe();
    pid_t self = ::getpid(), mapper = fixtures::forked();
    if (mapper == 0) {
        writing.reset();
        sys::read_all(reading.get(), 1, "a pipe");
        for (const char* map : {"/uid_map", "/gid_map"})
            sys::write_all(sys::open_file(cat("/proc/", self, map), O_WRONLY).get(), "0 0 4294967295\n", map);
        ::_exit(0);
    }
    reading.reset();
    int number = sys::unshare(CLONE_NEWUSER), status = 0;
    writing.reset();
    if (number != 0) throw SysError("a user namespace", number);
    if (waitpid(mapper, &status, 0) != mapper || status != 0) throw Error("mapping all users failed");
}

TEST_CASE("plugin: a user namespace with all users is one of the job's own, too", "[kernel][root][spank]") {
    NEED_ROOT();
    NEED_CONTAINERS();
    auto [ours, theirs] = make_channel();
    pid_t server = container_server(theirs.get());
    theirs.reset();
    auto received = receive_message(ours.get(), 10'000);
    REQUIRE(received);
    Outcome seen = in_child([&] {
        keep_pipes();
        enter_namespace_of_all_users();
        as_user_here();
        spank::enter_namespaces(std::move(received->descriptors), {"/tmp", {}, {}});
        return std::string("entered");
    });
    CHECK(seen.text == "");
    CHECK_THAT(seen.error, Contains("joining the container's user namespace: ") && Contains("CLONE_NEWUSER"));
    end(server);
}

TEST_CASE("plugin: when the helper dies, what a task has started ends too, also when the task has ended before",
          "[kernel][root][spank]") {
    NEED_ROOT();
    auto [lives, its] = sys::make_pipe();
    pid_t helper = sleeping_child(), task = fixtures::forked();
    if (task == 0) {
        ::setpgid(0, 0);
        char byte = 1;
        [[maybe_unused]] ssize_t told = fixtures::forked() != 0 ? ::write(its.get(), &byte, 1) : 0;
        for (;;) ::pause();
    }
    its.reset();
    char byte;
    REQUIRE(::read(lives.get(), &byte, 1) == 1);
    Fd process = sys::pidfd_open(helper);
    spank::Watch watch;
    watch.spare_others();
    watch.add_task(task, process.get(), [] {});
    fixtures::kill_one(task, SIGKILL);
    ::waitpid(task, nullptr, 0);
    end(helper);
    // The end of file: nobody has the other end of the pipe any more.
    pollfd entry{lives.get(), POLLIN, 0};
    CHECK(::poll(&entry, 1, 20'000) == 1);
    watch.stop();
    fixtures::kill_group(task, SIGKILL);
}
