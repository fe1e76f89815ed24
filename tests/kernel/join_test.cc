// A process that joins a container must be closed to the container's processes until it executes its command.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>

#include "runtime/base/command.hh"
#include "runtime/base/sys.hh"
#include "runtime/container/entrypoint.hh"
#include "runtime/container/task_process.hh"
#include "spank/join.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr unsigned tries_in_ci = 2000;

/// Opens what process `pid` has open above the standard streams, and where it is. Empty when none of it can be had.
std::string look_into(const std::string& pid) {
    for (const char* place : {"/root", "/cwd"})
        if (Fd seen(::open(cat("/proc/", pid, place).c_str(), O_PATH | O_CLOEXEC)); seen) return cat("saw its ", place);
    std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(cat("/proc/", pid, "/fd").c_str()), ::closedir);
    if (!listing) return {};
    while (const dirent* entry = ::readdir(listing.get())) {
        if (entry->d_name[0] == '.' || std::stoi(entry->d_name) <= STDERR_FILENO) continue;
        std::string path = cat("/proc/", pid, "/fd/", entry->d_name);
        if (char target[4096]; ::readlink(path.c_str(), target, sizeof target) > 0) return cat("saw ", path);
    }
    return {};
}

/// True for a child of `parent`, whatever state it is in.
bool is_child(const std::string& pid, pid_t parent) {
    char text[512];
    Fd file(::open(cat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC));
    ssize_t size = file ? ::read(file.get(), text, sizeof text - 1) : 0;
    if (size <= 0) return false;
    text[size] = '\0';
    // The fourth word (proc(5)); the second is a name in parentheses.
    const char* end = std::strrchr(text, ')');
    char state = 0;
    int found = 0;
    return end != nullptr && std::sscanf(end + 1, " %c %d", &state, &found) == 2 && found == parent;
}

/// What the spy and the one that it looks at share.
struct Tries {
    std::atomic<unsigned> made = 0;
    std::atomic<bool> over = false;
};

Tries* shared_tries() {
    void* memory = ::mmap(nullptr, sizeof(Tries), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw SysError("sharing memory with the spy");
    return new (memory) Tries;
}

/// A process of the container that looks into every younger child of its parent until it is over; ends with code 1 when
/// it saw anything.
pid_t start_spy(const StartedContainer& container, Tries& tries) {
    pid_t looked_at = ::getpid(), spy = fixtures::forked();
    if (spy != 0) return spy;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 0;
    join_container(container);
    pid_t self = ::getpid();
    while (code == 0 && !tries.over) {
        std::unique_ptr<DIR, int (*)(DIR*)> processes(::opendir("/proc"), ::closedir);
        while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr) {
            std::string pid = entry->d_name;
            if (pid[0] < '1' || pid[0] > '9' || std::stoi(pid) <= self) continue;
            // As often as it is there.
            for (int i = 0; i < 20 && code == 0 && is_child(pid, looked_at); ++i, ++tries.made)
                if (!look_into(pid).empty()) code = 1;
        }
    }
    ::_exit(code);
}

/// A PATH that takes execve(2) long to find nothing in.
std::string long_path() {
    std::string out = "PATH=/";
    for (int i = 0; i < 5000; ++i) out += ":/a";
    return out;
}

/// Runs `join` again and again beside a spy in the container until it has looked `wanted` times.
Outcome spied(const std::function<void(const StartedContainer&)>& join, unsigned wanted) {
    NamedScene scene;
    auto body = [&] {
        // A change of the user takes it away; berth has it as any program.
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        UsedContainer used = scene.use("spied");
        Tries& tries = *shared_tries();
        pid_t spy = start_spy(used.joined.container, tries);
        int status = 0;
        while (tries.made < wanted && ::waitpid(spy, &status, WNOHANG) == 0) join(used.joined.container);
        bool saw = tries.made < wanted;
        tries.over = true;
        if (!saw) ::waitpid(spy, &status, 0);
        leave(std::move(used.connection));
        return std::string(code_of(status) == 0 ? "nothing seen" : "seen");
    };
    // The spy and what it looks at share the machine with whatever else runs.
    return as_user(body, std::chrono::seconds(wanted > tries_in_ci ? 3600 : 120));
}

/// Says that there is no such command.
void run_command(const StartedContainer& container) {
    Fd null = sys::open_file("/dev/null", O_WRONLY);
    Fd errors(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
    ::dup2(null.get(), STDERR_FILENO);
    Task task = start_task(container, {"missing"}, {long_path()}, false);
    ::dup2(errors.get(), STDERR_FILENO);
    task.process.wait();
}

void run_image_entrypoint(const StartedContainer& container) {
    // On a slow machine it takes long, which is said.
    auto unheard = [](const std::string&) {};
    EntrypointRun run{container, {"missing"}, {long_path()}, {}, unheard, -1, {}};
    try {
        run_entrypoint(run);
    } catch (const Error&) {
    }
}

/// As a task of Slurm's: slurmstepd's child, with what it has of slurmstepd.
void join_as_task(const StartedContainer& container) {
    pid_t child = fixtures::forked();
    if (child == 0) {
        ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        try {
            Fd of_the_node = sys::open_file("/", O_RDONLY | O_DIRECTORY);
            std::vector<Fd> namespaces;
            for (int fd : {container.user_namespace.get(), container.mount_namespace.get()})
                namespaces.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
            plan::Ready ready;
            ready.workdir = "/";
            spank::enter_namespaces(std::move(namespaces), ready);
            spank::give_up_privileges(container.seccomp_program, container.capabilities);
            find_command("missing", long_path().substr(5));
        } catch (const Error&) {
        }
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
}

void check_unseen(unsigned wanted) {
    auto [what, join] = GENERATE(table<std::string, void (*)(const StartedContainer&)>(
        {{"a command", run_command}, {"an entrypoint", run_image_entrypoint}, {"a task", join_as_task}}));
    CAPTURE(what);
    Outcome outcome = spied(join, wanted);
    CHECK(outcome.error == "");
    CHECK(outcome.text == "nothing seen");
}

}  // namespace

TEST_CASE("join: a process of the container sees nothing of what joins it before that is executed",
          "[kernel][named][entrypoint]") {
    NEED_CONTAINERS();
    check_unseen(tries_in_ci);
}

TEST_CASE("join: nor does it in a hundred thousand tries", "[kernel][.][races]") {
    NEED_CONTAINERS();
    check_unseen(100'000);
}
