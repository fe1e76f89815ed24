// Where a step's helper belongs, by the texts that Slurm's releases leave in /proc/PID/cgroup.

#include "spank/cgroup.hh"
#include "tests/catch.hh"

using namespace berth::spank;

namespace {

std::string leaf(std::string_view cgroups, bool of_job = false) {
    auto group = job_group(cgroups);
    if (!group) return "none";
    LeafPlace place = of_job ? leaf_of_job(*group, "0") : leaf_of_step(*group, "0");
    return place.mount + "|" + place.parent + "|" + place.name;
}

}  // namespace

TEST_CASE("leaf: with cgroup v2 it is beside Slurm's groups of the step, or the job's", "[spank][cgroup]") {
    std::string_view own = "0::/system.slice/slurmstepd.scope/job_5/step_0/slurm\n";
    CHECK(leaf(own) == "/sys/fs/cgroup|/system.slice/slurmstepd.scope/job_5/step_0|berth");
    CHECK(leaf(own, true) == "/sys/fs/cgroup|/system.slice/slurmstepd.scope/job_5|berth_0");
    CHECK(tasks_of_step(*job_group(own)) == "/system.slice/slurmstepd.scope/job_5/step_0/user");
    // Several slurmd on a machine, the batch step, a name of 26.05's for the job.
    CHECK(leaf("0::/system.slice/n1_slurmstepd.scope/s4S3Z8T0NMT00/step_batch/slurm\n") ==
          "/sys/fs/cgroup|/system.slice/n1_slurmstepd.scope/s4S3Z8T0NMT00/step_batch|berth");
    CHECK(leaf("0::/system.slice/slurmstepd.scope/job_5/step_extern/user/task_special\n", true) ==
          "/sys/fs/cgroup|/system.slice/slurmstepd.scope/job_5|berth_0");
    CHECK(leaf("0::/slurmstepd.scope/job_5/step_0/user/task_3/step_9/slurm\n") ==
          "/sys/fs/cgroup|/slurmstepd.scope/job_5/step_0|berth");
}

TEST_CASE("leaf: with cgroup v1 it is the job's in the freezer, whose steps are the user's", "[spank][cgroup]") {
    std::string_view own =
        "9:name=systemd:/system.slice/slurmd.service\n8:pids:/\n6:freezer:/slurm/uid_2001/job_5\n"
        "4:memory:/slurm/uid_2001/job_5/step_0\n0::/system.slice/slurmd.service\n";
    CHECK(leaf(own) == "/sys/fs/cgroup/freezer|/slurm/uid_2001/job_5|berth_0");
    CHECK(leaf(own, true) == "/sys/fs/cgroup/freezer|/slurm/uid_2001/job_5|berth");
    CHECK(leaf("6:pids,freezer:/slurm_n1/uid_2001/job_5/step_0\n") ==
          "/sys/fs/cgroup/pids,freezer|/slurm_n1/uid_2001/job_5|berth_0");
}

TEST_CASE("leaf: where Slurm has no cgroup for the step there is none", "[spank][cgroup]") {
    for (std::string_view text :
         {"", "\n", "0::/\n", "6:freezer:/\n", "0::/system.slice/slurmd.service\n6:freezer:/\n",
          "0::/system.slice/slurmstepd.scope/system\n", "4:memory:/slurm/uid_2001/job_5\n", "6:freezer:/job_5\n",
          "0::/slurm\n", "0::/step_0/slurm\n", "0::system/job_5/step_0/slurm\n", "0:/job_5/step_0/slurm\n",
          "0::/scope/job_5/step_0/slurm (deleted)\n"})
        CHECK(leaf(text) == "none");
}

TEST_CASE("leaf: who is in one is told from who is not", "[spank][cgroup]") {
    CHECK(is_in_leaf("0::/scope/job_5/step_0/berth\n"));
    CHECK(is_in_leaf("6:freezer:/slurm/uid_1/job_5/berth_batch\n4:memory:/slurm/uid_1/job_5/step_0\n"));
    CHECK_FALSE(is_in_leaf("0::/scope/job_5/step_0/slurm\n"));
    CHECK_FALSE(is_in_leaf("0::/berth/job_5\n"));
    CHECK_FALSE(is_in_leaf(""));
}

TEST_CASE("leaf: what another job has handed over is in a leaf of its own, which ends with the job",
          "[spank][cgroup]") {
    std::string name = leaf_handed_over_by(7);
    CHECK(name == "berth_from_7");
    for (bool unified : {false, true}) {
        CHECK(is_name_of_jobs_leaf(name, unified));
        CHECK(is_name_of_jobs_leaf("berth_0", unified) == unified);
        CHECK(is_name_of_jobs_leaf("berth", unified) != unified);
    }
    CHECK(is_leaf_name(name));
    CHECK(is_in_leaf("0::/scope/job_8/berth_from_7\n"));
}
