// Which file is a job's mount namespace, by lines as Slurm's releases leave them in /proc/PID/mountinfo.

#include "spank/job_mounts.hh"
#include "tests/catch.hh"

using berth::spank::job_mounts_file;

namespace {

constexpr std::string_view of_job_5 =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "301 22 254:0 /scratch/5 /scratch/5 rw,relatime - ext4 /dev/vda rw\n"
    "302 301 0:4 mnt:[4026532611] /scratch/5/.ns rw - nsfs nsfs rw\n";

}  // namespace

TEST_CASE("job mounts: the file of the job, by its number", "[spank]") {
    CHECK(job_mounts_file(of_job_5, 5) == "/scratch/5/.ns");
    CHECK(job_mounts_file(of_job_5, 15).empty());
    CHECK(job_mounts_file("302 301 0:4 mnt:[4026532611] /local/n1/15/.ns rw shared:7 - nsfs nsfs rw\n", 5).empty());
    CHECK(job_mounts_file("302 301 0:4 mnt:[4026532611] /local/n1/15/.ns rw shared:7 - nsfs nsfs rw\n", 15) ==
          "/local/n1/15/.ns");
}

TEST_CASE("job mounts: of namespace/linux it is one of several files", "[spank]") {
    std::string_view text =
        "302 301 0:4 pid:[4026532610] /scratch/5/.ns/pid rw - nsfs nsfs rw\n"
        "303 301 0:4 mnt:[4026532611] /scratch/5/.ns/mnt rw - nsfs nsfs rw\n";
    CHECK(job_mounts_file(text, 5) == "/scratch/5/.ns/mnt");
    CHECK(job_mounts_file(text, 15).empty());
}

TEST_CASE("job mounts: other namespaces, folders and texts are none", "[spank]") {
    CHECK(job_mounts_file("", 5).empty());
    CHECK(job_mounts_file("302 301 0:4 net:[4026532611] /scratch/5/.ns rw - nsfs nsfs rw\n", 5).empty());
    CHECK(job_mounts_file("302 301 0:4 / /scratch/5/.ns rw - tmpfs mnt:[4026532611] rw\n", 5).empty());
    CHECK(job_mounts_file("302 301 0:4 mnt:[4026532611]", 5).empty());
    CHECK(job_mounts_file("302 301 0:4 mnt:[4026532611] - nsfs /5/.ns rw\n", 5).empty());
}
