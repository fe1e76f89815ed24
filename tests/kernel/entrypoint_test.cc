// The image's entrypoint in a real container: what it makes of the environment, and what it may not see, hold up or
// fill.
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/base/sys.hh"
#include "runtime/container/entrypoint.hh"
#include "runtime/request/mounts.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// With the node's shell, as a ShellScene has it.
plan::Request with_shell() {
    plan::Request request;
    request.mounts = plan::parse_mounts("/usr:/usr:ro");
    return request;
}

void fill_for_shell(squash::LayerWriter& writer) {
    fill_sample(writer);
    for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
    writer.add_directory("usr", {});
}

/// More memory than a line may take. The address sanitizer keeps for a while what has been given back.
#ifdef __SANITIZE_ADDRESS__
constexpr long most_kib = 1 << 20;
#else
constexpr long most_kib = 8 << 10;
#endif

using Log = std::function<void(const std::string&)>;

/// What the entrypoint, a script that gets its command as "$@", changes of the environment.
std::string changes_by(const StartedContainer& container, const std::string& script, const Log& log = {}) {
    EntrypointRun run{
        container, {"/usr/bin/bash", "--norc", "-c", script, "entry"}, {"PATH=/usr/bin", "HOME=/"}, log, {}, -1, {}};
    run.note = [](const std::string&) {};
    std::string out;
    for (const plan::EnvironmentChange& change : run_entrypoint(run))
        out += cat(change.name, "=", change.value.value_or("(none)"), " ");
    return out;
}

/// `body` in the server of a container, a child that acts as the test user.
Outcome with_server(const std::function<std::string(const StartedContainer&)>& body,
                    const plan::Request& request = with_shell()) {
    plan::Plan plan = plan_for(request);
    ContainerImage image = make_image(Fill(fill_for_shell));
    return as_user([&] { return body(start_container(plan, std::move(image), {})); });
}

Outcome run_in_own(const std::string& script) {
    return with_server([&](const StartedContainer& container) { return changes_by(container, script); });
}

/// Lets a system call seem to have been made, only after the end of the process that started this one.
void orphaned(int, siginfo_t*, void* context) {
    pid_t parent = ::getppid();
    fixtures::kill_one(parent, SIGKILL);
    while (::getppid() == parent) ::usleep(1000);
    [[maybe_unused]] auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    registers.gregs[REG_RAX] = 0;
#elif defined(__aarch64__)
    registers.regs[0] = 0;
#endif
}

/// The calling process's children lose it just when they want to be tied to it.
void die_before_the_tie() {
    struct sigaction action {};
    action.sa_sigaction = orphaned;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSYS, &action, nullptr);
    scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
    scmp_arg_cmp tie = SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG);
    if (::seccomp_rule_add(filter, SCMP_ACT_TRAP, SCMP_SYS(prctl), 1, tie) != 0 || ::seccomp_load(filter) != 0)
        throw Error("catching the tie");
    ::seccomp_release(filter);
}

}  // namespace

TEST_CASE("entrypoint: its environment is taken, whether it executes its command or starts it",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    ShellScene scene;
    for (const char* script : {"export MADE=1; unset HOME; exec \"$@\"", "export MADE=1; unset HOME; \"$@\"; :"}) {
        Outcome own = run_in_own(script);
        Outcome shared = as_user([&] {
            UsedContainer used = scene.use("e", with_shell());
            std::string out = changes_by(used.joined.container, script);
            leave(std::move(used.connection));
            return out;
        });
        CHECK(own.error == "");
        CHECK(own.text == "HOME=(none) MADE=1 ");
        CHECK(shared.error == "");
        CHECK(shared.text == "HOME=(none) MADE=1 ");
    }
}

TEST_CASE("entrypoint: its pipes are in their places whatever numbers the helper's descriptors have",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    // As with the sockets of some 70 to 80 tasks: the pipes of the entrypoint come to lie on numbers 77 and 78.
    Outcome seen = with_server([](const StartedContainer& container) {
        std::string out;
        Fd null = sys::open_file("/dev/null", O_RDONLY);
        std::vector<Fd> sockets;
        for (int last = 66; last < 80; ++last) {
            while (sockets.empty() || sockets.back().get() < last)
                sockets.emplace_back(::fcntl(null.get(), F_DUPFD_CLOEXEC, 3));
            out += changes_by(container, "export MADE=1; exec \"$@\"");
        }
        return out;
    });
    std::string all;
    for (int last = 66; last < 80; ++last) all += "MADE=1 ";
    CHECK(seen.error == "");
    CHECK(seen.text == all);
}

TEST_CASE("entrypoint: it cannot have the environment of another process of the user's read", "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    ShellScene scene;
    Outcome seen = as_user([&] {
        Beside other({"/usr/bin/env", "-i", "SECRET=node", "/bin/sh", "-c", "echo $$; exec sleep 60"});
        std::string number;
        read_until(other.output(), number, "\n");
        UsedContainer used = scene.use("e", with_shell());
        // Its own code cannot.
        std::string look =
            cat("SEEN=$(cat /proc/", trimmed(number), "/environ 2>&1 | tr -d '\\0'); export SEEN; exec \"$@\"");
        std::string own = changes_by(used.joined.container, look);
        if (own.find("SECRET") != own.npos || own.find("SEEN=cat: /proc/") == own.npos) throw Error(own);
        return changes_by(used.joined.container, cat("echo ", trimmed(number), " > /proc/self/fd/77; exec sleep 60"));
    });
    CHECK(seen.text == "");
    CHECK_THAT(seen.error, Catch::StartsWith("the image's entrypoint /usr/bin/bash names process ") &&
                               Catch::EndsWith(" which is not in the container"));
}

TEST_CASE("entrypoint: it cannot have the environment of its container's server read", "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    Outcome seen = with_server([](const StartedContainer& container) {
        std::string out;
        // The server's threads have numbers as well.
        Fd threads = sys::open_at(container.proc.get(), "self/task", O_RDONLY | O_DIRECTORY);
        for (const std::string& number : sys::list_directory(threads.get(), "the server's threads")) try {
                out += changes_by(container, cat("echo ", number, " > /proc/self/fd/77; exec sleep 60"));
            } catch (const SysError& error) {
                if (error.number() != EACCES) out += error.what();
            }
        return out + "done";
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "done");
}

TEST_CASE("entrypoint: a process that is none, or something else, in place of the number is an error",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    CHECK(run_in_own("echo 2147483647 > /proc/self/fd/77; exec sleep 60").error ==
          "opening 2147483647: No such file or directory");
    CHECK(run_in_own("echo ../1 > /proc/self/fd/77; exec sleep 60").error ==
          "the image's entrypoint /usr/bin/bash uses descriptor 77, which is berth's");
}

TEST_CASE("entrypoint: what it leaves in the background may write for ever", "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    // The more there is by then, the less the pipe can be found empty.
    const std::string noise = "for i in 1 2 3 4; do cat /dev/zero & done; sleep 2; ";
    Outcome seen = run_in_own(noise + "export MADE=1; exec \"$@\"");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "MADE=1 ");
    Outcome failed = run_in_own(noise + "exit 3");
    CHECK_FALSE(failed.hung);
    CHECK_THAT(failed.error, Catch::Contains("ended with code 3 without running the command"));
}

TEST_CASE("entrypoint: a line without end takes neither memory nor time; of a long one its beginning is shown",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    Outcome seen = with_server([](const StartedContainer& container) {
        std::string lines, last;
        std::string out =
            changes_by(container, "head -c 100000 /dev/zero | tr '\\0' x; printf '\\na\\n\\nlast\\n'; exec \"$@\"",
                       [&](const std::string& line) {
                           lines += cat(line.size(), " ");
                           last = line;
                       });
        rusage before{}, after{};
        ::getrusage(RUSAGE_SELF, &before);
        out += changes_by(container, "head -c 64M /dev/zero; export MADE=1; exec \"$@\"");
        ::getrusage(RUSAGE_SELF, &after);
        return cat(lines, last, "|", out, "|", after.ru_maxrss - before.ru_maxrss < most_kib ? "small" : "large");
    });
    CHECK_FALSE(seen.hung);
    CHECK(seen.error == "");
    CHECK(seen.text == "4099 4099 1 0 4 last|MADE=1 |small");
}

TEST_CASE("entrypoint: it does not outlive the one that started it, however early that is killed",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    Folder seen_by_test;
    plan::Request request = with_shell();
    for (plan::MountRequest& mount : plan::parse_mounts(seen_by_test / ":/seen"))
        request.mounts.push_back(std::move(mount));
    auto run = [&](bool dies) {
        return with_server(
            [&](const StartedContainer& container) {
                auto&& [told, its] = sys::make_pipe();
                pid_t starter = fixtures::forked();
                if (starter == 0) {
                    if (dies) die_before_the_tie();
                    changes_by(container, "echo ran > /seen/file; exec \"$@\"");
                    ::_exit(0);
                }
                its.reset();
                int status = 0;
                ::waitpid(starter, &status, 0);
                // The entrypoint holds the pipe as long as it is not in the container.
                sys::read_all(told.get(), 1, "what nobody writes");
                return cat(code_of(status), " ", ::access("/seen/file", F_OK) == 0 ? "ran" : "");
            },
            request);
    };
    Outcome killed = run(true);
    CHECK(killed.error == "");
    CHECK(killed.text == "1009 ");
    CHECK(run(false).text == "0 ran");
}
