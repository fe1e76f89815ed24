// A process that joins a container must be closed to the container's processes until it executes its command.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "runtime/base/sys.hh"
#include "runtime/container/entrypoint.hh"
#include "runtime/container/task_process.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// Opens what process `pid` has open above the standard streams. Empty when none of it can be had.
std::string look_into(const std::string& pid) {
    std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(cat("/proc/", pid, "/fd").c_str()), ::closedir);
    if (!listing) return {};
    while (const dirent* entry = ::readdir(listing.get())) {
        if (entry->d_name[0] == '.' || std::stoi(entry->d_name) <= STDERR_FILENO) continue;
        std::string path = cat("/proc/", pid, "/fd/", entry->d_name);
        if (char target[4096]; ::readlink(path.c_str(), target, sizeof target) > 0) return cat("saw ", path);
    }
    return {};
}

/// A process of the container that looks into every younger one of the node, until `stop` is closed; ends with code 1
/// when it saw anything.
pid_t start_spy(const StartedContainer& container, int stop, Fd& hold) {
    pid_t spy = ::fork();
    if (spy != 0) return spy;
    hold.reset();
    int code = 0;
    join_container(container);
    pid_t self = ::getpid();
    for (char none; code == 0 && ::read(stop, &none, 1) < 0;) {
        std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), ::closedir);
        while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr)
            if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && std::stoi(entry->d_name) > self &&
                !look_into(entry->d_name).empty())
                code = 1;
    }
    ::_exit(code);
}

/// A PATH that takes execve(2) long to find nothing in.
std::string long_path() {
    std::string out = "PATH=/";
    for (int i = 0; i < 5000; ++i) out += ":/a";
    return out;
}

/// Runs `join` again and again beside a spy in the container: "seen" or "nothing seen".
Outcome spied(const std::function<void(const StartedContainer&)>& join) {
    NamedScene scene;
    auto body = [&] {
        // A change of the user takes it away; berth has it as any program.
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        UsedContainer used = scene.use("spied");
        auto&& [stop, hold] = sys::make_pipe();
        ::fcntl(stop.get(), F_SETFL, O_NONBLOCK);
        pid_t spy = start_spy(used.joined.container, stop.get(), hold);
        for (int i = 0; i < 50; ++i) join(used.joined.container);
        hold.reset();
        int status = 0;
        ::waitpid(spy, &status, 0);
        leave(std::move(used.connection));
        return std::string(code_of(status) == 0 ? "nothing seen" : "seen");
    };
    // The spy and what it looks at share the machine with whatever else runs.
    return as_user(body, std::chrono::seconds(60));
}

}  // namespace

TEST_CASE("join: a process of the container sees nothing of a command's process before it is executed",
          "[kernel][named]") {
    NEED_CONTAINERS();
    Outcome outcome = spied([](const StartedContainer& container) {
        // Says 50 times that there is no such command.
        Fd null = sys::open_file("/dev/null", O_WRONLY);
        Fd errors(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
        ::dup2(null.get(), STDERR_FILENO);
        Task task = start_task(container, {"missing"}, {long_path()}, false);
        ::dup2(errors.get(), STDERR_FILENO);
        task.process.wait();
    });
    CHECK(outcome.error == "");
    CHECK(outcome.text == "nothing seen");
}

TEST_CASE("join: a process of the container sees nothing of an entrypoint's process before it is executed",
          "[kernel][entrypoint]") {
    NEED_CONTAINERS();
    Outcome outcome = spied([](const StartedContainer& container) {
        EntrypointRun run{container, {"missing"}, {long_path()}, {}, {}, -1, {}};
        try {
            run_entrypoint(run);
        } catch (const Error&) {
        }
    });
    CHECK(outcome.error == "");
    CHECK(outcome.text == "nothing seen");
}
