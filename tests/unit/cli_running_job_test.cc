#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/cli/running_job.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::cli;
using Catch::Contains;

TEST_CASE("a job is written as JOB or JOB.STEP", "[cli][job]") {
    CHECK(parse_job_target("1234") == JobTarget{"1234", ""});
    CHECK(parse_job_target("1234_7") == JobTarget{"1234_7", ""});
    CHECK(parse_job_target("1234.0") == JobTarget{"1234", "0"});
    CHECK(parse_job_target("1234_7.batch") == JobTarget{"1234_7", "batch"});
    CHECK(parse_job_target("9.interactive").text() == "9.interactive");
    for (const char* bad : {"", ".", "12.", ".0", "a", "12a", "12.x", "12.0.1", "_1", "1_", "12 ", "-1", "12.extern",
                            "12,13", "99999999999", "12.99999999999999", "1/2", "12.0\n"}) {
        INFO(bad);
        CHECK_THROWS_AS(parse_job_target(bad), Error);
    }
}

TEST_CASE("squeue's lines are taken apart, and others left out", "[cli][job]") {
    CHECK(parse_queue("12|12|RUNNING|2001|n[1-2]\n\nslurm_load_jobs error\nx|12|RUNNING|2001|n1\n"
                      "13|9_[1-3]|PENDING|2001|\n") ==
          std::vector<QueuedJob>{{"12", "12", "RUNNING", "2001", "n[1-2]"}, {"13", "9_[1-3]", "PENDING", "2001", ""}});
    CHECK(parse_queue("").empty());
}

namespace {

const std::vector<QueuedJob> array = {{"20", "20_1", "COMPLETED", "2001", "n1"},
                                      {"21", "20_2", "RUNNING", "2001", "n1"},
                                      {"22", "20_3", "RUNNING", "2001", "n2"}};

QueuedJob found(const std::vector<QueuedJob>& queue, const char* job) {
    return running_job(queue, parse_job_target(job), 2001);
}

}  // namespace

TEST_CASE("the job that is meant runs and is the caller's", "[cli][job]") {
    std::vector<QueuedJob> queue = {{"12", "12", "RUNNING", "2001", "n[1-2]"}};
    CHECK(found(queue, "12") == queue[0]);
    CHECK_THROWS_WITH(found({}, "12"), Contains("knows none of that number"));
    CHECK_THROWS_WITH(running_job(queue, {"12", ""}, 2002), Contains("another user's"));
    for (const char* state : {"PENDING", "CONFIGURING", "SUSPENDED", "REQUEUED"})
        CHECK_THROWS_WITH(found({{"12", "12", state, "2001", ""}}, "12"), Contains("does not run"));
    for (const char* state : {"COMPLETED", "CANCELLED", "COMPLETING", "TIMEOUT"})
        CHECK_THROWS_WITH(found({{"12", "12", state, "2001", "n1"}}, "12"), Contains("has ended"));
}

TEST_CASE("a task of a job array is meant by its name, by its number, or as the only one that runs", "[cli][job]") {
    CHECK(found(array, "20_2").id == "21");
    CHECK(found(array, "22").id == "22");
    CHECK_THROWS_WITH(found(array, "20_1"), Contains("has ended"));
    CHECK_THROWS_WITH(found(array, "20"), Contains("has ended"));
    // Slurm gives the array's number to its last task.
    std::vector<QueuedJob> whole = {{"31", "30_1", "RUNNING", "2001", "n1"}, {"32", "30_2", "RUNNING", "2001", "n1"}};
    CHECK_THROWS_WITH(found(whole, "30"), Contains("2 tasks of this array run; write one, as 30_1"));
    whole.pop_back();
    CHECK(found(whole, "30").id == "31");
}

TEST_CASE("the node is the one that was asked for, or the first", "[cli][job]") {
    JobTarget target{"12", ""};
    CHECK(node_of_job({"n1", "n2"}, "", target) == "n1");
    CHECK(node_of_job({"n1", "n2"}, "n2", target) == "n2");
    CHECK_THROWS_WITH(node_of_job({"n1", "n2"}, "n3", target), Contains("no node n3"));
    CHECK_THROWS_AS(node_of_job({}, "", target), Error);
}

TEST_CASE("srun's step shares the job's resources, and its output comes as it is written", "[cli][job]") {
    std::vector<std::string> words = srun_words({"12", "n2", false, true, {"/usr/bin/berth", "enter", "12", "ls"}});
    auto has = [&](const char* word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    for (const char* word : {"--jobid=12", "--overlap", "--nodelist=n2", "--nodes=1", "--ntasks=1", "--unbuffered",
                             "--cpu-bind=none", "--mem=0"}) {
        INFO(word);
        CHECK(has(word));
    }
    CHECK_FALSE(has("--pty"));
    CHECK(std::vector<std::string>(words.end() - 4, words.end()) ==
          std::vector<std::string>{"/usr/bin/berth", "enter", "12", "ls"});
    words = srun_words({"12", "n2", true, false, {"sh"}});
    CHECK(has("--pty"));
    CHECK_FALSE(has("--unbuffered"));
    CHECK_FALSE(has("--cpu-bind=none"));
}

TEST_CASE("srun is told of binding only where tasks can be bound", "[cli][job]") {
    CHECK(binds_tasks("Configuration\nTaskEpilog = x\nTaskPlugin              = task/affinity,task/cgroup\nX = y\n"));
    CHECK_FALSE(binds_tasks("TaskPlugin              = task/none\nTaskPluginParam         = task/affinity\n"));
    CHECK_FALSE(binds_tasks("TaskPlugin              = task/cgroup\n"));
    CHECK_FALSE(binds_tasks(""));
}

TEST_CASE("variables that would make another step of it are left out", "[cli][job]") {
    for (const char* name : {"SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CPU_BIND", "SRUN_CONTAINER", "SQUEUE_USERS",
                             "BERTH_CONTAINER_IMAGE", "PYXIS_CONTAINER_IMAGE", "SLURMD_NODENAME",
                             "_SLURM_SPANK_OPTION_berth_container_image", "SPANK_X"})
        CHECK(steers_srun(name));
    for (const char* name : {"SLURM_CONF", "SLURM_JWT", "HOME", "BERTH_DATA_PATH", "XSLURM_X"})
        CHECK_FALSE(steers_srun(name));
}
