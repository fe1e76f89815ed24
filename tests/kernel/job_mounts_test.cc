// The mounts that Slurm makes for a job: found, and given the user's folder in /run. As job_container/tmpfs of Slurm
// makes them: a mount namespace that is mounted as a file.
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "spank/job_mounts.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr uid_t user = 2001;

void own_mounts() {
    if (int number = sys::unshare(CLONE_NEWNS); number != 0) throw SysError("a mount namespace", number);
    sys::make_mounts_private();
}

void mount_tmpfs(const std::string& target) {
    ::mkdir(target.c_str(), 0755);
    if (::mount("berth-test", target.c_str(), "tmpfs", 0, "mode=755") != 0) throw SysError("mounting " + target);
}

/// A process in a mount namespace of its own, which is mounted as FOLDER/JOB/.ns.
class JobMounts {
  public:
    JobMounts(const Folder& folder, uint32_t job) {
        auto [ready, says] = sys::make_pipe();
        pid_ = fixtures::forked();
        if (pid_ == 0) {
            own_mounts();
            [[maybe_unused]] ssize_t written = ::write(says.get(), "x", 1);
            for (;;) ::pause();
        }
        says.reset();
        char byte = 0;
        if (::read(ready.get(), &byte, 1) != 1) throw Error("the job's mounts were not made");
        std::string place = folder / std::to_string(job), file = place + "/.ns";
        ::mkdir(place.c_str(), 0700);
        (void)sys::open_file(file, O_CREAT | O_WRONLY, 0600);
        if (::mount(cat("/proc/", pid_, "/ns/mnt").c_str(), file.c_str(), nullptr, MS_BIND, nullptr) != 0)
            throw SysError("mounting " + file);
    }
    JobMounts(const JobMounts&) = delete;
    JobMounts& operator=(const JobMounts&) = delete;
    ~JobMounts() {
        fixtures::kill_one(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    bool sees(const std::string& path) const {
        return ::access(cat("/proc/", pid_, "/root", path).c_str(), F_OK) == 0;
    }
    size_t mounts_of_run() const {
        size_t out = 0;
        for (const std::string& line : split(sys::read_file(cat("/proc/", pid_, "/mountinfo")), '\n'))
            out += line.find(" /run/berth ") != line.npos;
        return out;
    }

  private:
    pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("job mounts: they are found by the job's number, and the user's folder in /run is there after it was made",
          "[kernel][root][spank][one-thread]") {
    if (::geteuid() != 0) FAIL("cannot run: not root");
    Folder folder;
    Outcome seen = in_child([&] {
        // From Linux 6.18 on each CPU numbers new namespaces by itself, and only one with a higher number than the own
        // may be mounted.
        cpu_set_t first;
        CPU_ZERO(&first);
        CPU_SET(::sched_getcpu(), &first);
        ::sched_setaffinity(0, sizeof first, &first);
        own_mounts();
        mount_tmpfs("/run");
        JobMounts job(folder, 7);
        mount_tmpfs("/run/berth");
        mount_tmpfs("/run/berth/2001");
        (void)sys::open_file("/run/berth/2001/steps", O_CREAT | O_WRONLY, 0600);
        std::string out = spank::open_job_mounts(77) ? "found" : "none";
        out += job.sees("/run/berth/2001") ? " there" : "";
        Fd mounts = spank::open_job_mounts(7);
        spank::show_run_directory(mounts.get(), user);
        out += cat(job.sees("/run/berth/2001/steps") ? " shown" : " hidden", " ", job.mounts_of_run());
        // By the job's next step.
        spank::show_run_directory(mounts.get(), user);
        return out + cat(" ", job.mounts_of_run());
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "none shown 1 1");
}
