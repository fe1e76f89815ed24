// The cgroups that a task with a namespace of its own sees anew, by what /proc/self/cgroup says.

#include "spank/own_cgroup.hh"
#include "tests/catch.hh"

using namespace berth::spank;

TEST_CASE("own cgroup: version 2 alone is one file system, those of version 1 are one each", "[spank][cgroup]") {
    CHECK(hierarchies_of("0::/system.slice/job_1\n", true) == std::vector<Hierarchy>{{"cgroup2", "", ""}});
    CHECK(hierarchies_of("12:cpu,cpuacct:/slurm\n1:name=systemd:/x:y\n0::/z\n", false) ==
          std::vector<Hierarchy>{{"cgroup", "cpu,cpuacct", "/cpu,cpuacct"},
                                 {"cgroup", "name=systemd", "/systemd"},
                                 {"cgroup2", "", "/unified"}});
    // Nothing leads out of the folder, and what is no line is passed over.
    CHECK(hierarchies_of("3:name=../x:/\nnothing\n", false).empty());
}
