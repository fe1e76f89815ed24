// What a step of a job with --mig makes of what berth-mig has told.
#include "runtime/step/mig.hh"

#include <fcntl.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

TEST_CASE("--mig: a step runs only where berth-mig has said that the job's GPUs are divided as asked", "[step][mig]") {
    CHECK(mig_problem("1g.10gb:2", "ready 1g.10gb:2").empty());
    CHECK_THAT(mig_problem("1g.10gb:2", std::nullopt), Catch::StartsWith("the GPUs of this job were not divided; "));
    CHECK(mig_problem("1g.10gb:2", "the job holds no GPU; ask for one, as by --gres=gpu:1") ==
          "the job holds no GPU; ask for one, as by --gres=gpu:1");
    CHECK(mig_problem("7g.80gb", "ready 1g.10gb:2") ==
          "the GPUs of this job were divided into 1g.10gb:2 when it started, and stay so; leave the option out");
    CHECK(mig_problem("7g.80gb", "ready") == "ready");
    CHECK(mig_problem("7g.80gb", "x\x1b[31m") == "x\\x1b[31m");
}

TEST_CASE("--mig: the word is looked for only in jobs that have asked", "[step][mig]") {
    fixtures::TempFolder jobs;
    const std::vector<std::string> asks{"A=b", "SLURM_SPANK_BERTH_MIG=1g.10gb"};
    CHECK_NOTHROW(check_mig({"A=b"}, 7, jobs.path()));
    CHECK_NOTHROW(check_mig({"SLURM_SPANK_BERTH_MIG="}, 7, jobs.path()));
    CHECK_THROWS_WITH(check_mig(asks, 7, jobs.path()),
                      Catch::StartsWith("--mig=1g.10gb: the GPUs of this job were not divided; "));
    CHECK_THROWS_AS(check_mig(asks, 7, jobs / "missing"), Error);
    sys::write_all(jobs.create("7").get(), "ready 1g.10gb\n", "7");
    CHECK_NOTHROW(check_mig(asks, 7, jobs.path()));
    CHECK_THROWS_AS(check_mig(asks, 8, jobs.path()), Error);
    sys::write_all(jobs.create("7").get(), "1g.10gb does not fit\n", "7");
    CHECK_THROWS_WITH(check_mig(asks, 7, jobs.path()), "--mig=1g.10gb: 1g.10gb does not fit");
}
