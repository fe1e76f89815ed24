// The cgroup of a step's helper, in the real hierarchies of this machine: version 1's freezer, version 2, whichever
// there are.
#include <fcntl.h>
#include <linux/bpf.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "spank/ending.hh"
#include "spank/held_devices.hh"
#include "spank/helper.hh"
#include "spank/job_leaves.hh"
#include "spank/leaf.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/root.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::spank;
using Catch::Contains;
using namespace std::string_literals;

namespace {

/// Where Slurm would make groups, by version.
std::vector<std::string> hierarchies() {
    std::vector<std::string> out;
    for (const char* folder : {"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"})
        if (std::filesystem::exists(cat(folder, "/cgroup.procs"))) out.push_back(folder);
    return out;
}

/// The groups of a job and its step as Slurm makes them, by the version of the hierarchy; removed with the object.
class JobOfTest {
  public:
    explicit JobOfTest(const std::string& mount, const std::string& name = "job_7")
        : top_(cat("/berth-test-", getpid())), group(group_in(mount, top_ + between(mount) + '/' + name)) {
        std::filesystem::create_directories(path() + "/step_0");
    }
    ~JobOfTest() {
        for (const char* folder :
             {"/step_0/berth", "/step_0/user", "/step_0", "/berth", "/berth_0", "/berth_from_7", ""})
            ::rmdir((path() + folder).c_str());
        ::rmdir((group.mount + top_ + between(group.mount)).c_str());
        ::rmdir((group.mount + top_).c_str());
    }
    std::string path() const { return group.mount + group.job; }
    std::string leaf_of_step() const {
        LeafPlace place = spank::leaf_of_step(group, "0");
        return cat(place.mount, place.parent, '/', place.name);
    }

  private:
    static bool unified(const std::string& mount) { return !mount.ends_with("freezer"); }
    static std::string between(const std::string& mount) { return unified(mount) ? "" : "/uid_2001"; }
    static JobGroup group_in(const std::string& mount, const std::string& job) {
        return {mount, job, unified(mount) ? job + "/step_0" : "", unified(mount)};
    }

    std::string top_;

  public:
    JobGroup group;
};

bool exists(const std::string& path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0;
}

/// Starts children as fast as it can, which do the same.
[[noreturn]] void multiply() {
    for (;;)
        if (::fork() < 0) ::usleep(1000);
}

/// Forks a process into the leaf which does `before`, and then `action`; returns in between.
template <typename Action>
pid_t put_into(const Leaf& leaf, Action action, bool (*before)() = [] { return true; }) {
    auto [ready, its] = sys::make_pipe();
    pid_t child = fixtures::forked();
    if (child == 0) {
        if (!leaf.take(0) || !before()) ::_exit(1);
        its.reset();
        action();
        for (;;) ::pause();
    }
    its.reset();
    char byte;
    [[maybe_unused]] ssize_t got = ::read(ready.get(), &byte, 1);
    return child;
}

bool become_user() { return ::setresgid(2001, 2001, 2001) == 0 && ::setresuid(2001, 2001, 2001) == 0; }

/// As a file server does.
bool become_server() { return become_user() && sys::unshare(CLONE_NEWUSER) == 0; }

/// As a program in a container that has made a user namespace of its own.
bool become_nested() {
    if (!become_user()) return false;
    // A change of ids closes a process to itself.
    ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    for (int level = 0; level < 2; ++level) sandbox::enter_user_namespace({2001, 2001, 2001, 2001});
    return true;
}

/// As slurm_spank_user_init is called.
StartedHelper start_as_slurmstepd(const std::string& program, HelperPlace place) {
    if (::setegid(2001) != 0 || ::seteuid(2001) != 0) throw SysError("acting as slurmstepd");
    return start_helper(program, {2001, 2001, {2001}}, {"step"}, place);
}

/// All that it says until its end.
std::string words_of(StartedHelper& helper) {
    std::string out;
    char buffer[4096];
    for (ssize_t size; (size = ::recv(helper.socket.get(), buffer, sizeof buffer, 0)) > 0;)
        out.append(buffer, static_cast<size_t>(size));
    wait_for_helper(helper.process.get(), 5000);
    return out;
}

long bpf(int command, bpf_attr& attributes) { return ::syscall(SYS_bpf, command, &attributes, sizeof attributes); }

/// Attaches to a group what lets its processes open all device nodes but the character device 1:MINOR, in the way that
/// Slurm does it.
void refuse_device(const std::string& group, int minor) {
    // The context is a bpf_cgroup_dev_ctx, and the result 0 refuses (linux/bpf.h).
    const bpf_insn program[] = {
        {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1},
        {BPF_LDX | BPF_MEM | BPF_W, 2, 1, offsetof(bpf_cgroup_dev_ctx, major), 0},
        {BPF_LDX | BPF_MEM | BPF_W, 3, 1, offsetof(bpf_cgroup_dev_ctx, minor), 0},
        {BPF_JMP | BPF_JNE | BPF_K, 2, 0, 2, 1},
        {BPF_JMP | BPF_JNE | BPF_K, 3, 0, 1, minor},
        {BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0},
        {BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
    };
    bpf_attr load{};
    load.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    load.insns = reinterpret_cast<uint64_t>(program);
    load.insn_cnt = std::size(program);
    load.license = reinterpret_cast<uint64_t>("GPL");
    Fd loaded(static_cast<int>(bpf(BPF_PROG_LOAD, load)));
    if (!loaded) throw SysError("loading a filter of devices");
    Fd folder = sys::open_file(group, O_RDONLY | O_DIRECTORY);
    bpf_attr attach{};
    attach.target_fd = static_cast<uint32_t>(folder.get());
    attach.attach_bpf_fd = static_cast<uint32_t>(loaded.get());
    attach.attach_type = BPF_CGROUP_DEVICE;
    attach.attach_flags = BPF_F_ALLOW_OVERRIDE;
    if (bpf(BPF_PROG_ATTACH, attach) != 0) throw SysError("attaching a filter of devices to " + group);
}

int status_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

/// Waits for the end of a child and says whether it was killed.
bool was_killed(pid_t child) {
    for (int waited = 0; waited < 20'000; waited += 10, ::poll(nullptr, 0, 10)) {
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) == child) return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }
    return false;
}

}  // namespace

TEST_CASE("leaf: all that is in it ends, also what is stopped, has forked away or forks without an end",
          "[kernel][root][spank]") {
    NEED_ROOT();
    REQUIRE_FALSE(hierarchies().empty());
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest job(mount);
        Leaf leaf = Leaf::make(leaf_of_step(job.group, "0"));
        pid_t stopped = put_into(leaf, [] { ::raise(SIGSTOP); });
        pid_t parent = put_into(leaf, [] {
            if (fixtures::forked() == 0) {
                ::setsid();
                if (fixtures::forked() == 0)
                    for (;;) ::pause();
                ::_exit(0);
            }
            ::_exit(0);
        });
        status_of(parent);
        pid_t many = put_into(leaf, [] {
            // The machine is others' as well.
            struct rlimit few = {60, 60};
            ::setrlimit(RLIMIT_NPROC, &few);
            if (::setresuid(54321, 54321, 54321) != 0) ::_exit(1);
            multiply();
        });
        std::string folder = job.leaf_of_step();
        CHECK(sys::read_file(folder + "/cgroup.procs") != "");
        CHECK(leaf.end(10'000));
        CHECK_FALSE(leaf);
        CHECK_FALSE(exists(folder));
        CHECK(status_of(stopped) == SIGKILL);
        CHECK(status_of(many) == SIGKILL);
    }
}

TEST_CASE("ending: once the helper has gone a thread ends what is in the leaf, while Slurm waits for other processes",
          "[kernel][root][spank]") {
    NEED_ROOT();
    JobOfTest job(hierarchies()[0]);
    Leaf leaf = Leaf::make(leaf_of_step(job.group, "0"));
    pid_t stray = put_into(leaf, [] {}), helper = fixtures::forked();
    if (helper == 0)
        for (;;) ::pause();
    Fd process = sys::pidfd_open(helper), left = sys::pidfd_open(stray);
    Ending ending;
    ending.begin(process.get(), &leaf);
    // It has five seconds, and the caller waits for none of them.
    CHECK(::waitpid(helper, nullptr, WNOHANG) == 0);
    pollfd ended{left.get(), POLLIN, 0};
    CHECK(::poll(&ended, 1, 0) == 0);
    fixtures::kill_one(helper, SIGKILL);
    status_of(helper);
    CHECK(::poll(&ended, 1, 10'000) == 1);
    CHECK(status_of(stray) == SIGKILL);
    ending.finish();
    CHECK_FALSE(exists(job.leaf_of_step()));
    fixtures::kill_one(stray, SIGKILL);
}

TEST_CASE("leaf: it can be made again while it is there, and is ended once", "[kernel][root][spank]") {
    NEED_ROOT();
    for (const std::string& mount : hierarchies()) {
        JobOfTest job(mount);
        Leaf leaf = Leaf::make(leaf_of_job(job.group, "0")), same = Leaf::make(leaf_of_job(job.group, "0"));
        CHECK(same.end(0));
        CHECK(leaf.end(0));
        CHECK_FALSE(leaf.take(0));
        CHECK_FALSE(Leaf().take(0));
        CHECK(Leaf().end(0));
        CHECK(Leaf().folder() == -1);
    }
}

TEST_CASE("leaf: no file of it stays open, by which a task that inherits it could move processes",
          "[kernel][root][spank]") {
    NEED_ROOT();
    JobOfTest job(hierarchies()[0]);
    Leaf leaf = Leaf::make(leaf_of_step(job.group, "0"));
    Fd descriptors = sys::open_file("/proc/self/fd", O_RDONLY | O_DIRECTORY);
    for (const std::string& number : sys::list_directory(descriptors.get(), "descriptors")) {
        struct stat info {};
        std::string path = cat("/proc/self/fd/", number), target(4096, '\0');
        ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
        target.resize(size > 0 ? static_cast<size_t>(size) : 0);
        if (target.starts_with(job.path()) && ::stat(path.c_str(), &info) == 0) CHECK(S_ISDIR(info.st_mode));
    }
    CHECK(leaf.end(0));
}

TEST_CASE("leaf: none is made where there are no cgroups, or no group of a job", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    folder.directory("job");
    CHECK_THROWS_WITH(Leaf::make({folder / ".", "/job", "berth"}), Contains("no cgroups are mounted"));
    CHECK_FALSE(exists(folder / "job/berth"));
    CHECK_THROWS_AS(Leaf::make({hierarchies()[0], "/no/such/job", "berth"}), SysError);
    CHECK_THROWS_AS(Leaf::make({"/no/such/mount", "/job", "berth"}), SysError);
}

TEST_CASE("leaf: the helper is born in it, as its children are; without one it starts all the same",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Program program("#!/bin/sh\ncat /proc/self/cgroup >&3\n");
    for (const std::string& mount : hierarchies()) {
        JobOfTest job(mount);
        Leaf leaf = Leaf::make(leaf_of_step(job.group, "0"));
        Fd nowhere = sys::open_file("/dev/null", O_RDONLY);
        for (int place : {leaf.folder(), -1, nowhere.get()}) {
            Outcome seen = in_child([&] {
                StartedHelper helper = start_as_slurmstepd(program.path(), {place});
                return cat(helper.in_leaf, ' ', is_in_leaf(words_of(helper)));
            });
            CHECK(seen.error == "");
            CHECK(seen.text == (place == leaf.folder() ? "1 1" : "0 0"));
        }
        CHECK(leaf.end(5'000));
    }
}

TEST_CASE("leaf: with version 2 the helper may open the devices of the step, not those of the whole job",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Program program(
        "#!/bin/sh\nfor name in zero full; do if test -r /dev/$name; then echo $name >&3; fi; done\nread line <&3\n");
    for (const std::string& mount : hierarchies()) {
        JobOfTest job(mount);
        if (!job.group.unified) continue;
        std::string tasks = mount + tasks_of_step(job.group);
        std::filesystem::create_directory(tasks);
        refuse_device(job.path(), 5);
        for (bool named : {false, true}) {
            CAPTURE(mount, named);
            Leaf leaf = Leaf::make(named ? leaf_of_job(job.group, "0") : leaf_of_step(job.group, "0"));
            auto seen_with = [&](int devices) {
                Outcome seen = in_child([&] {
                    StartedHelper helper = start_as_slurmstepd(program.path(), {leaf.folder(), devices});
                    ::shutdown(helper.socket.get(), SHUT_WR);
                    return cat(helper.has_devices, ' ', words_of(helper));
                });
                return seen.error + seen.text;
            };
            Fd folder = sys::open_file(tasks, O_RDONLY | O_DIRECTORY);
            CHECK(seen_with(-1) == "0 full\n");
            // As a step without devices of its own has it, a batch step for one.
            CHECK(seen_with(folder.get()) == (named ? "1 zero\n" : "1 full\n"));
            if (!named) refuse_device(tasks, 7);
            CHECK(seen_with(folder.get()) == "1 zero\n");
            CHECK(leaf.end(5'000));
        }
    }
}

TEST_CASE("leaf: a job's end ends its leaves and its steps', and removes what Slurm could not",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest job(mount);
        remember_job_group(links, "n1", 7, job.group);
        remember_job_group(links, "n1", 7, job.group);
        Leaf of_job = Leaf::make(leaf_of_job(job.group, "0")), of_step = Leaf::make(leaf_of_step(job.group, "0"));
        pid_t helper = put_into(of_job, [] { ::raise(SIGSTOP); }), stray = put_into(of_step, [] {});

        JobLeaves other(links, "n2", 7);
        CHECK(other.folder() == -1);
        CHECK(other.end(0));
        CHECK(exists(cat(job.path(), '/', leaf_of_job(job.group, "0").name)));

        JobLeaves leaves(links, "n1", 7);
        CHECK(leaves.folder() >= 0);
        CHECK(leaves.end(10'000));
        CHECK(status_of(helper) == SIGKILL);
        CHECK(status_of(stray) == SIGKILL);
        CHECK_FALSE(exists(job.path()));
        CHECK_FALSE(exists(links + "/n1.7"));
        CHECK(JobLeaves(links, "n1", 7).end(0));
    }
}

TEST_CASE("leaf: at a job's end the groups that Slurm is about to remove are left to it", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest job(mount);
        remember_job_group(links, "n1", 7, job.group);
        std::string step = job.path() + "/step_extern";
        REQUIRE(::mkdir(step.c_str(), 0755) == 0);
        int removed = -1;
        std::thread slurm([&] {
            ::poll(nullptr, 0, 200);
            removed = ::rmdir(step.c_str());
        });
        CHECK(JobLeaves(links, "n1", 7).end(0));
        slurm.join();
        CHECK(removed == 0);
        CHECK_FALSE(exists(job.path()));
    }
}

TEST_CASE("leaf: at a job's end what serves a container goes to another job of its user's that has one",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest ended(mount), others(mount, "job_8"), idle(mount, "job_9"), next(mount, "job_10");
        std::vector<Leaf> leaves;
        uint32_t number = 7;
        for (const JobOfTest* job : {&ended, &others, &idle, &next}) {
            remember_job_group(links, "n1", number++, job->group);
            leaves.push_back(Leaf::make(leaf_of_job(job->group, "0")));
        }
        pid_t of_other = put_into(leaves[1], [] {}), user = put_into(leaves[3], [] {}, become_user);
        pid_t server = put_into(leaves[0], [] {}, become_server), stray = put_into(leaves[0], [] {}, become_user);
        pid_t nested = put_into(leaves[0], [] {}, become_nested);

        CHECK(JobLeaves(links, "n1", 7).end(10'000));
        CHECK(status_of(stray) == SIGKILL);
        CHECK(was_killed(nested));
        CHECK(::waitpid(server, nullptr, WNOHANG) == 0);
        CHECK_FALSE(exists(ended.path()));
        // In a leaf of its own, which ends with that job.
        std::vector<pid_t> there = processes_in(sys::open_file(next.path() + "/berth_from_7", O_DIRECTORY).get());
        CHECK(there == std::vector<pid_t>{server});

        // Nobody is left who could use it.
        fixtures::kill_one(user, SIGKILL);
        status_of(user);
        CHECK(JobLeaves(links, "n1", 10).end(10'000));
        CHECK(status_of(server) == SIGKILL);
        CHECK(leaves[1].end(10'000));
        CHECK(status_of(of_other) == SIGKILL);
        CHECK(leaves[2].end(0));
        for (uint32_t job : {8, 9}) CHECK(JobLeaves(links, "n1", job).end(0));
    }
}

namespace {

const char* const device_of_test = "/dev/kmsg";

bool become_server_with_device() {
    return ::open(device_of_test, O_WRONLY) >= 0 && become_server();
}

}  // namespace

TEST_CASE("hostile: at a job's end nothing takes a device of it to another job, and what holds none goes on there",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest ended(mount), next(mount, "job_8");
        remember_job_group(links, "n1", 7, ended.group);
        remember_job_group(links, "n1", 8, next.group);
        Leaf from = Leaf::make(leaf_of_job(ended.group, "0")), to = Leaf::make(leaf_of_job(next.group, "0"));
        pid_t user = put_into(to, [] { [[maybe_unused]] int fd = ::open(device_of_test, O_WRONLY); }, become_user);
        pid_t server = put_into(from, [] {}, become_server);
        pid_t holder = put_into(from, [] {}, become_server_with_device);
        // Whoever is looked at first: it has what its parent had.
        auto [child_ready, its] = sys::make_pipe();
        static int says;
        says = its.get();
        pid_t parent = put_into(
            from,
            [] {
                pid_t child = fixtures::forked();
                if (child == 0) return;
                [[maybe_unused]] ssize_t told = ::write(says, &child, sizeof child);
            },
            become_server_with_device);
        pid_t grandchild = 0;
        REQUIRE(::read(child_ready.get(), &grandchild, sizeof grandchild) == sizeof grandchild);
        Fd grandchilds = sys::pidfd_open(grandchild);

        CHECK(JobLeaves(links, "n1", 7).end(10'000));
        CHECK(was_killed(holder));
        CHECK(was_killed(parent));
        pollfd gone{grandchilds.get(), POLLIN, 0};
        CHECK(::poll(&gone, 1, 20'000) == 1);
        CHECK(::waitpid(server, nullptr, WNOHANG) == 0);
        CHECK(::waitpid(user, nullptr, WNOHANG) == 0);
        std::vector<pid_t> there = processes_in(sys::open_file(next.path() + "/berth_from_7", O_DIRECTORY).get());
        CHECK(there == std::vector<pid_t>{server});

        CHECK(JobLeaves(links, "n1", 8).end(10'000));
        CHECK(status_of(server) == SIGKILL);
        CHECK(status_of(user) == SIGKILL);
    }
}

TEST_CASE("hostile: what a server forks into a namespace below its own is never handed over", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    for (const std::string& mount : hierarchies()) {
        CAPTURE(mount);
        JobOfTest ended(mount), next(mount, "job_8");
        remember_job_group(links, "n1", 7, ended.group);
        remember_job_group(links, "n1", 8, next.group);
        Leaf from = Leaf::make(leaf_of_job(ended.group, "0")), to = Leaf::make(leaf_of_job(next.group, "0"));
        pid_t user = put_into(to, [] {}, become_user);
        auto [child_ready, its] = sys::make_pipe();
        static int says;
        says = its.get();
        pid_t server = put_into(
            from,
            [] {
                pid_t child = fixtures::forked();
                if (child != 0) return;
                sandbox::enter_user_namespace({2001, 2001, 2001, 2001});
                pid_t own = ::getpid();
                [[maybe_unused]] ssize_t told = ::write(says, &own, sizeof own);
            },
            [] {
                if (!become_user()) return false;
                ::prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
                sandbox::enter_user_namespace({2001, 2001, 2001, 2001});
                return true;
            });
        its.reset();
        pid_t nested = 0;
        REQUIRE(::read(child_ready.get(), &nested, sizeof nested) == sizeof nested);
        Fd process = sys::pidfd_open(nested);

        CHECK(JobLeaves(links, "n1", 7).end(10'000));
        pollfd gone{process.get(), POLLIN, 0};
        CHECK(::poll(&gone, 1, 20'000) == 1);
        CHECK(::waitpid(server, nullptr, WNOHANG) == 0);
        CHECK(JobLeaves(links, "n1", 8).end(10'000));
        for (pid_t child : {server, user}) CHECK(status_of(child) == SIGKILL);
        fixtures::kill_one(nested, SIGKILL);
    }
}

TEST_CASE("held devices: open in any thread, mapped, or not to be seen", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    auto held_by = [&](void (*action)(), size_t links = 1 << 20) {
        auto [ready, its] = sys::make_pipe();
        pid_t child = fixtures::forked();
        if (child == 0) {
            int pipe = its.get();
            // An anonymous inode, a socket, a device that everybody has, a terminal.
            for (int fd : {::epoll_create1(0), ::socket(AF_UNIX, SOCK_STREAM, 0), ::open("/dev/urandom", O_RDONLY),
                           ::open("/dev/ptmx", O_RDWR | O_NOCTTY), ::open("/", O_PATH)})
                if (fd < 0) ::_exit(1);
            action();
            char byte = 1;
            [[maybe_unused]] ssize_t told = ::write(pipe, &byte, 1);
            for (;;) ::pause();
        }
        its.reset();
        char byte;
        bool began = ::read(ready.get(), &byte, 1) == 1, held = holds_devices(child, links);
        fixtures::kill_one(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        return began ? (held ? "held" : "free") : "not begun";
    };
    auto open_device = [] {
        if (::open(device_of_test, O_WRONLY) < 0) ::_exit(1);
    };
    CHECK(held_by([] {}) == "free"s);
    CHECK(held_by([] {}, 3) == "held"s);
    CHECK(held_by(open_device) == "held"s);
    CHECK(held_by([] {
              static std::atomic<bool> has = false;
              std::thread([] {
                  if (::unshare(CLONE_FILES) != 0 || ::open(device_of_test, O_WRONLY) < 0) ::_exit(1);
                  has = true;
                  for (;;) ::pause();
              }).detach();
              while (!has) ::usleep(1000);
          }) == "held"s);
    // A block device is none that goes along; its memory stays mapped when it is closed.
    CHECK(held_by([] {
              for (const char* name : {"/dev/loop0", "/dev/vda", "/dev/sda", "/dev/nvme0n1"})
                  if (Fd device(::open(name, O_RDONLY | O_NONBLOCK)); device)
                      if (::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, device.get(), 0) != MAP_FAILED) return;
              ::_exit(1);
          }) == "held"s);
    size_t links = 100;
    pid_t child = fixtures::forked();
    if (child == 0) ::_exit(0);
    status_of(child);
    CHECK_FALSE(holds_devices(child, links));
}

TEST_CASE("leaf: a list of more processes than fit into a megabyte is read to its end", "[kernel][spank]") {
    Folder folder;
    std::string list;
    std::vector<pid_t> wanted;
    for (pid_t pid = 1'000'000; list.size() < 3 << 20; ++pid) {
        list += cat(pid, '\n');
        wanted.push_back(pid);
    }
    folder.file("cgroup.procs", list);
    CHECK(processes_in(sys::open_file(folder / ".", O_RDONLY | O_DIRECTORY).get()) == wanted);
}

TEST_CASE("leaf: a job whose group Slurm has removed is forgotten with the next one that ends",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    std::string links = folder / "jobs";
    {
        JobOfTest gone(hierarchies()[0], "job_6");
        remember_job_group(links, "n1", 6, gone.group);
    }
    JobOfTest job(hierarchies()[0]);
    remember_job_group(links, "n1", 7, job.group);
    remember_job_group(links, "n1", 8, job.group);
    JobLeaves leaves(links, "n1", 8);
    Fd other = sys::open_file(job.path() + "/step_0", O_RDONLY | O_DIRECTORY);
    std::filesystem::create_directory(job.path() + "/step_0/task_0");
    CHECK(leaves.end(0));
    CHECK_FALSE(exists(links + "/n1.6"));
    CHECK_FALSE(exists(links + "/n1.8"));
    // A group that is not empty stays.
    CHECK(exists(links + "/n1.7"));
    CHECK(exists(job.path()));
    ::rmdir((job.path() + "/step_0/task_0").c_str());
}
