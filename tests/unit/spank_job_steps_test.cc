// Who is last of a job, for where no epilog of plugins follows it.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/sys.hh"
#include "spank/job_steps.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;
using namespace berth::spank;

namespace {

const JobOnNode job{2001, 7, "n1.cluster"};

struct Steps {
    fixtures::TempFolder folder;
    std::string path = folder / "steps";
    Fd enter(const JobOnNode& which = job) { return enter_job(path, which); }
    /// True for whoever is to end the job.
    bool leaves(Fd hold, bool over = false) { return bool(leave_job(path, job, std::move(hold), over)); }
    size_t files() { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {})); }
};

}  // namespace

TEST_CASE("job steps: the job is ended by its extern step when no other runs", "[spank]") {
    Steps steps;
    Fd first = steps.enter(), second = steps.enter();
    CHECK_FALSE(steps.leaves(std::move(first)));
    CHECK_FALSE(steps.leaves(std::move(second)));
    Fd last = leave_job(steps.path, job, Fd(), true);
    REQUIRE(last);
    forget_job(steps.path, job);
    CHECK(steps.files() == 0);
}

TEST_CASE("job steps: steps that end after the extern step leave it to the last of them", "[spank]") {
    Steps steps;
    Fd first = steps.enter(), second = steps.enter();
    CHECK_FALSE(steps.leaves(Fd(), true));
    // Of a step without a container.
    CHECK_FALSE(steps.leaves(Fd()));
    CHECK_FALSE(steps.leaves(std::move(second)));
    CHECK(steps.leaves(std::move(first)));
}

TEST_CASE("job steps: whoever ends the job does it alone", "[spank]") {
    Steps steps;
    Fd only = steps.enter();
    Fd last = leave_job(steps.path, job, std::move(only), true);
    REQUIRE(last);
    CHECK_FALSE(steps.leaves(Fd()));
    CHECK_FALSE(steps.leaves(Fd(), true));
    CHECK(idle_jobs(steps.path, {2002, 8, "n1.cluster"}).empty());
}

TEST_CASE("job steps: a job that had no container has nothing, and ends nothing", "[spank]") {
    Steps steps;
    CHECK_FALSE(steps.leaves(Fd(), true));
    CHECK(idle_jobs(steps.path, job).empty());
    CHECK_FALSE(std::filesystem::exists(steps.path));
}

TEST_CASE("job steps: what a slurmstepd that was killed has left is found by another job's step", "[spank]") {
    Steps steps;
    Fd of_other_node = steps.enter({2001, 9, "n2"}), running = steps.enter({2002, 10, "n1.cluster"});
    pid_t stepd = fixtures::forked();
    if (stepd == 0) {
        Fd hold = enter_job(steps.path, job);
        fixtures::kill_one(::getpid(), SIGKILL);
    }
    ::waitpid(stepd, nullptr, 0);
    of_other_node.reset();
    std::vector<IdleJob> idle = idle_jobs(steps.path, {2002, 10, "n1.cluster"});
    REQUIRE(idle.size() == 1);
    CHECK(idle[0].job.uid == 2001);
    CHECK(idle[0].job.job == 7);
    CHECK(idle[0].job.node == "n1.cluster");
    CHECK_FALSE(idle[0].over);
    idle.clear();
    // With its extern step gone as it should.
    { Fd last = leave_job(steps.path, job, Fd(), true); }
    idle = idle_jobs(steps.path, {2002, 10, "n1.cluster"});
    REQUIRE(idle.size() == 1);
    CHECK(idle[0].over);
}

TEST_CASE("job steps: files that are none of a job are left alone", "[spank]") {
    Steps steps;
    Fd hold = steps.enter();
    for (const char* name : {"x", "2001", "2001.7", "a.7.n1", "2001.b.n1", "-1.7.n1"})
        sys::write_all(sys::open_file(steps.path + "/" + name, O_WRONLY | O_CREAT, 0600).get(), "over", name);
    CHECK(idle_jobs(steps.path, job).empty());
}
