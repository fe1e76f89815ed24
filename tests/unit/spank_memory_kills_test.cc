// What the kernel ends for want of memory: where it is counted, by /proc/PID/cgroup, and what the files say.

#include "spank/memory_kills.hh"
#include "tests/catch.hh"

using namespace berth::spank;

TEST_CASE("memory kills: the file of the group, with both versions of cgroups", "[spank][cgroup]") {
    CHECK(memory_events_file("0::/system.slice/slurmstepd.scope/job_5/step_0/slurm\n") ==
          "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_5/step_0/slurm/memory.events");
    // Version 2 beside version 1 has no controller of memory.
    CHECK(memory_events_file("9:freezer:/slurm/uid_1/job_5/step_0\n4:memory:/slurm/uid_1/job_5/step_0\n0::/\n") ==
          "/sys/fs/cgroup/memory/slurm/uid_1/job_5/step_0/memory.oom_control");
    CHECK(memory_events_file("0::/\n4:memory:/slurm\n") == "/sys/fs/cgroup/memory/slurm/memory.oom_control");
    CHECK(memory_events_file("").empty());
    CHECK(memory_events_file("text\n").empty());
}

TEST_CASE("memory kills: their number", "[spank][cgroup]") {
    CHECK(oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n") == 3);
    CHECK(oom_kills("low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n") == 1);
    CHECK(oom_kills("oom_kill_disable 1\n") == 0);
    CHECK(oom_kills("oom_kill many\n") == 0);
    CHECK(oom_kills("") == 0);
}
