// The users' folders in /run as file systems of their own. Each test has a mount namespace and a folder in place of
// /run.
#include <fcntl.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/owned_directory.hh"
#include "spank/run_directory.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr uid_t user = 2001, other = 2002;
constexpr spank::RunLimits limits{256 << 10, 64};

struct Run {
    const Folder& folder;
    Fd fd = sys::open_file(folder / ".", O_RDONLY | O_DIRECTORY);

    void enter(uint32_t job, uid_t uid = user, const char* node = "n1") const {
        spank::enter_run_directory(fd.get(), {uid, job, node}, uid, limits);
    }
    void leave(uint32_t job, uid_t uid = user, const char* node = "n1") const {
        spank::leave_run_directory(fd.get(), {uid, job, node});
    }
    std::string steps(uid_t uid = user) const { return folder / cat("berth/", uid, "/steps"); }
    bool has_steps(uid_t uid = user) const { return ::access(steps(uid).c_str(), F_OK) == 0; }
    bool has_folder(uid_t uid = user) const { return ::access((folder / cat("berth/", uid)).c_str(), F_OK) == 0; }
};

/// What `action` says in a mount namespace of its own.
template <typename Action>
Outcome in_own_mounts(const Folder& folder, Action action) {
    auto body = [&] {
        if (int number = sys::unshare(CLONE_NEWNS); number != 0) throw SysError("a mount namespace", number);
        sys::make_mounts_private();
        // As /run is.
        if (::chown((folder / ".").c_str(), 0, 0) != 0 || ::chmod((folder / ".").c_str(), 0755) != 0)
            throw SysError("making a folder for the test");
        return std::string(action(Run{folder}));
    };
    return in_child(body, std::chrono::seconds(60));
}

/// How many files of a byte, or how many bytes of one file, `uid` can write; and why no more.
std::string filled(const std::string& folder, uid_t uid, bool files) {
    ::setfsuid(uid);
    std::string chunk(4096, 'x');
    size_t count = 0;
    Fd file;
    for (; count < 100'000; ++count) {
        if (files || !file) file = Fd(::open(cat(folder, "/", count).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (!file || (!files && ::write(file.get(), chunk.data(), chunk.size()) < 0)) break;
    }
    int number = errno;
    ::setfsuid(0);
    return cat(count, " ", number == ENOSPC ? "full" : reason(number));
}

std::string size_and_flags(const std::string& path) {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) throw SysError("looking at " + path);
    constexpr unsigned long flags = ST_NOSUID | ST_NODEV | ST_NOEXEC;
    bool closed = (info.f_flag & flags) == flags;
    return cat(info.f_blocks * info.f_frsize, " ", info.f_files, " ",
               closed ? "nosuid,nodev,noexec" : "open");
}

}  // namespace

TEST_CASE("run directory: a user can fill neither the memory nor the inodes of others", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        run.enter(1), run.enter(2, other);
        std::string out = cat(size_and_flags(run.steps()), "; ", filled(run.steps(), user, false), "; ");
        out += cat(filled(run.steps(), user, true).ends_with(" full") ? "full" : "more", "; ");
        // What is full is the user's alone.
        run.enter(3, 2003);
        out += cat(filled(run.steps(other), other, true), "; ");
        // Nobody but root writes beside it, or holds the lock that all starts take.
        ::setfsuid(user);
        out += Fd(::open((run.folder / "berth.lock").c_str(), O_RDONLY | O_CLOEXEC)) ? "open" : "closed";
        for (const char* where : {"berth/x", "berth/jobs/x", "berth/2001/x"})
            out += Fd(::open((run.folder / where).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) ? " open" : " closed";
        ::setfsuid(0);
        return out;
    });
    CHECK(seen.error == "");
    // Of 64 inodes the root and `steps` have one each.
    CHECK(seen.text == "262144 64 nosuid,nodev,noexec; 64 full; full; 62 full; closed closed closed closed");
}

TEST_CASE("run directory: it goes with its user's last job, whatever is in it or mounted there",
          "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        run.enter(1), run.enter(1, user, "n2"), run.enter(2), run.enter(1, other);
        (void)sys::open_file(run.steps() + "/mark", O_CREAT | O_WRONLY, 0600);
        ::mkdir((run.steps() + "/mine").c_str(), 0755);
        if (::mount("none", (run.steps() + "/mine").c_str(), "tmpfs", 0, nullptr) != 0) throw SysError("mounting");
        Fd used = sys::open_file(run.steps() + "/mine", O_RDONLY | O_DIRECTORY);
        std::string out;
        auto note = [&] { out += ::access((run.steps() + "/mark").c_str(), F_OK) == 0 ? " there" : " gone"; };
        run.leave(1), note();
        run.leave(2), note();
        run.leave(2, other), note();
        run.leave(1, user, "n2"), note();
        out += run.has_folder() ? " left" : " clean";
        out += run.has_steps(other) ? " other" : " none";
        // A new one is empty.
        run.enter(3), note();
        out += run.has_steps() ? " new" : " none";
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == " there there there gone clean other gone new");
}

TEST_CASE("run directory: a job that starts while the last one ends keeps its folder", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        std::vector<pid_t> jobs;
        for (uint32_t job = 1; job <= 6; ++job)
            if (pid_t pid = fixtures::forked(); pid != 0) {
                jobs.push_back(pid);
            } else {
                int lost = 0;
                try {
                    for (int round = 0; round < 200; ++round) {
                        run.enter(job);
                        std::string mine = cat(run.steps(), "/", job);
                        if (!Fd(::open(mine.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600))) lost = 1;
                        ::sched_yield();
                        if (::access(mine.c_str(), F_OK) != 0) lost = 1;
                        run.leave(job);
                    }
                } catch (const Error&) {
                    lost = 2;
                }
                ::_exit(lost);
            }
        std::string out;
        for (pid_t pid : jobs) {
            int status = 0;
            ::waitpid(pid, &status, 0);
            out += cat(WEXITSTATUS(status), " ");
        }
        return out + (run.has_folder() ? "left" : "clean");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "0 0 0 0 0 0 clean");
}

TEST_CASE("run directory: a file system that the site has put there stays", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        ::mkdir((run.folder / "berth").c_str(), 0755);
        if (::mount("site", (run.folder / "berth").c_str(), "tmpfs", 0, "mode=755,size=1M") != 0)
            throw SysError("mounting");
        (void)sys::open_file(run.folder / "berth/sites", O_CREAT | O_WRONLY, 0600);
        run.enter(1), run.leave(1);
        return ::access((run.folder / "berth/sites").c_str(), F_OK) == 0 ? "there" : "hidden";
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "there");
}

TEST_CASE("hostile: root does not enter what a user has mounted over their folder in /run", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        run.enter(1), run.enter(1);
        if (::mount("none", run.steps().c_str(), "tmpfs", 0, "uid=2001,mode=700") != 0) throw SysError("mounting");
        run.enter(1);
        return "entered";
    });
    CHECK(seen.error ==
          "opening /run/berth/2001/steps: something is mounted on it; unmount it (fusermount -u, or umount)");
}

TEST_CASE("hostile: a mark that a user has mounted something on is none for root", "[kernel][root][spank]") {
    NEED_ROOT();
    Folder folder;
    Outcome seen = in_own_mounts(folder, [](const Run& run) {
        run.enter(1);
        Fd steps = sys::open_file(run.steps(), O_RDONLY | O_DIRECTORY);
        for (const char* mark : {"/job-1", "/job-2"})
            (void)sys::open_file(run.steps() + mark, O_CREAT | O_WRONLY, 0600);
        if (::symlink("job-1", (run.steps() + "/job-3").c_str()) != 0) throw SysError("linking");
        if (::mount("/dev/null", (run.steps() + "/job-2").c_str(), nullptr, MS_BIND, nullptr) != 0)
            throw SysError("mounting");
        std::string out;
        for (const char* mark : {"job-1", "job-2", "job-3", "job-4"})
            out += spank::has_own(steps.get(), mark) ? "there " : "none ";
        return out;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "there none there none ");
}
