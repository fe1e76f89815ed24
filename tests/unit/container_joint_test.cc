// Which step a process is of, for the container that equal starts of a step share.
#include "runtime/container/named/joint.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("container: the step of a process by its environment", "[container]") {
    CHECK(step_in_environment({"SLURM_JOB_ID=4", "SLURM_STEP_ID=0", "SLURM_TASK_PID=9", "SLURMD_NODENAME=n1"}) ==
          "4.0@n1");
    CHECK(step_in_environment({"SLURM_JOB_ID=4", "SLURM_TASK_PID=9", "SLURMD_NODENAME=n1"}) == "4.batch@n1");
    // salloc's shell, and what is of no job.
    CHECK(step_in_environment({"SLURM_JOB_ID=4", "SLURMD_NODENAME=n1"}).empty());
    CHECK(step_in_environment({"SLURM_STEP_ID=0", "SLURM_TASK_PID=9"}).empty());
    CHECK(step_in_environment({}).empty());
}

TEST_CASE("container: the step in control groups, without the groups of single tasks", "[container]") {
    std::string of_first = step_of_cgroups("0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n");
    CHECK(of_first == "::/system.slice/slurmstepd.scope/job_5/step_0\n");
    CHECK(step_of_cgroups("0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_7\n") == of_first);
    CHECK(step_of_cgroups("0::/system.slice/slurmstepd.scope/job_5/step_1/user/task_0\n") != of_first);
    // Version 1, whose hierarchies have other numbers after a mount.
    CHECK(step_of_cgroups("4:freezer:/slurm_n1/uid_1/job_5/step_batch\n2:cpu:/\n") ==
          ":freezer:/slurm_n1/uid_1/job_5/step_batch\n");
    CHECK(step_of_cgroups("0::/user.slice\n").empty());
    CHECK(step_of_cgroups("").empty());
}
