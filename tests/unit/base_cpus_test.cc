#include <map>

#include "runtime/base/cpus.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

std::optional<double> cpus(const std::string& membership, const std::map<std::string, std::string>& files) {
    return cgroup_cpus(membership, [&](const std::string& path) {
        auto found = files.find(path);
        return found == files.end() ? std::nullopt : std::optional(found->second);
    });
}

}  // namespace

TEST_CASE("cpus: the least quota from the group to the root counts", "[base]") {
    CHECK_FALSE(cpus("0::/\n", {}));
    CHECK_FALSE(cpus("0::/a/b\n", {{"/sys/fs/cgroup/a/b/cpu.max", "max 100000\n"}}));
    CHECK(cpus("0::/a/b\n", {{"/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n"}}) == 2.5);
    CHECK(cpus("0::/a/b\n", {{"/sys/fs/cgroup/a/b/cpu.max", "800000 100000\n"},
                             {"/sys/fs/cgroup/a/cpu.max", "400000 100000\n"}}) == 4);
    CHECK(cpus("0::/\n", {{"/sys/fs/cgroup/cpu.max", "50000 100000\n"}}) == 0.5);
}

TEST_CASE("cpus: version 1 has a hierarchy of its own", "[base]") {
    std::string membership = "5:memory:/m\n4:cpu,cpuacct:/slurm/job\n3:cpuset:/x\n0::/s\n";
    CHECK(cpus(membership, {{"/sys/fs/cgroup/cpu/slurm/job/cpu.cfs_quota_us", "300000\n"},
                            {"/sys/fs/cgroup/cpu/slurm/job/cpu.cfs_period_us", "100000\n"}}) == 3);
    CHECK_FALSE(cpus(membership, {{"/sys/fs/cgroup/cpu/slurm/job/cpu.cfs_quota_us", "-1\n"},
                                  {"/sys/fs/cgroup/cpu/slurm/job/cpu.cfs_period_us", "100000\n"}}));
    CHECK_FALSE(cpus(membership, {{"/sys/fs/cgroup/cpu/m/cpu.cfs_quota_us", "1\n"}}));
}

TEST_CASE("cpus: nonsense is no limit", "[base]") {
    for (const char* text : {"", "x", "100000", "100000 0", "-5 100000", "1 2 3"})
        CHECK_FALSE(cpus("0::/a", {{"/sys/fs/cgroup/a/cpu.max", text}}));
    for (const char* membership : {"", ":", "0:", "0::", "0::x", "junk\n\n"}) CHECK_FALSE(cpus(membership, {}));
    CHECK(usable_cpus() >= 1);
}
