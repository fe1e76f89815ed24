#include "runtime/plan/job_environment.hh"
#include "runtime/plan/plan.hh"
#include "tests/catch.hh"

using namespace berth::plan;
using Changes = std::vector<EnvironmentChange>;

TEST_CASE("job environment: the first node of a list", "[plan]") {
    CHECK(first_node("n1") == "n1");
    CHECK(first_node("n[3-5,9],m1") == "n3");
    CHECK(first_node("n[007-010]-ib") == "n007-ib");
    CHECK(first_node("rack[2,4]n[1-2]") == "rack2n1");
    CHECK(first_node("a,b") == "a");
    CHECK(first_node("n[1-2") == "n[1-2");
    CHECK(first_node("").empty());
}

TEST_CASE("job environment: PyTorch's variables come with PYTORCH_VERSION only, and rank with the task", "[plan]") {
    std::vector<std::string> task = {"SLURM_PROCID=3",
                                     "SLURM_LOCALID=1",
                                     "SLURM_STEP_NODELIST=n[1-2]",
                                     "SLURM_JOB_ID=5000",
                                     "SLURM_STEP_NUM_TASKS=4",
                                     "SLURM_STEP_NUM_NODES=2",
                                     "RANK=9"};
    EnvironmentRules rules;
    CHECK(environment_changes(rules, task).empty());
    rules.image = {"PYTORCH_VERSION=2"};
    CHECK(environment_changes(rules, task) == Changes{{"LOCAL_RANK", "1"},
                                                      {"MASTER_ADDR", "n1"},
                                                      {"MASTER_PORT", "61464"},
                                                      {"OMP_NUM_THREADS", "1"},
                                                      {"PYTORCH_VERSION", "2"},
                                                      {"RANK", "3"},
                                                      {"WORLD_SIZE", "4"}});
}

TEST_CASE("job environment: what the job or the image says of MASTER_ADDR and the like stays", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"PYTORCH_VERSION=2", "OMP_NUM_THREADS=8"};
    std::vector<std::string> task = {"SLURM_PROCID=0",       "SLURM_STEP_NODELIST=n1", "SLURM_JOB_ID=1",
                                     "SLURM_NTASKS=2",       "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1",
                                     "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500",      "WORLD_SIZE=16"};
    CHECK(environment_changes(rules, task) ==
          Changes{{"OMP_NUM_THREADS", "8"}, {"PYTORCH_VERSION", "2"}, {"RANK", "0"}});
}

TEST_CASE("job environment: outside of Slurm nothing is added", "[plan]") {
    EnvironmentRules rules;
    rules.image = {"PYTORCH_VERSION=2"};
    CHECK(environment_changes(rules, {}) == Changes{{"PYTORCH_VERSION", "2"}});
}

TEST_CASE(
    "job environment: the server's PMIx modules become the library's, and an image has no say in a job's variables",
    "[plan]") {
    EnvironmentRules rules;
    rules.image = {"SLURM_PROCID=7", "PMIX_RANK=7", "PMI_FD=7", "PMIX_MCA_gds=hash"};
    CHECK(environment_changes(rules, {"SLURM_PROCID=0", "PMIX_RANK=0", "PMI_FD=12", "PMIX_SECURITY_MODE=munge,native",
                                      "PMIX_GDS_MODULE=ds21,hash"}) ==
          Changes{{"PMIX_MCA_gds", "hash"}, {"PMIX_MCA_psec", "munge,native"}});
    // The share of a GPU that Slurm has given (--gres=mps), and the pipe of the job's service.
    rules.image = {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100", "CUDA_MPS_PIPE_DIRECTORY=/tmp/images",
                   "CUDA_MPS_LOG_DIRECTORY=/tmp/log"};
    CHECK(environment_changes(rules, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50", "CUDA_MPS_PIPE_DIRECTORY=/tmp/jobs"}) ==
          Changes{{"CUDA_MPS_LOG_DIRECTORY", "/tmp/log"}});
}

TEST_CASE("job environment: PMIx does not work for root in a container, said once a step", "[plan]") {
    std::vector<std::string> task = {"SLURM_MPI_TYPE=pmix_v4", "SLURM_NODEID=0", "SLURM_STEP_NUM_TASKS=2"};
    CHECK_FALSE(pmix_note(task, true).empty());
    CHECK(pmix_note(task, false).empty());
    CHECK(pmix_note({task[0], "SLURM_NODEID=1", task[2]}, true).empty());
    CHECK(pmix_note({task[0], task[1], "SLURM_STEP_NUM_TASKS=1"}, true).empty());
    CHECK(pmix_note({"SLURM_MPI_TYPE=pmi2", task[1], task[2]}, true).empty());
}

TEST_CASE("job environment: the folders of a PMIx step", "[plan]") {
    CHECK(has_pmix_server({"A=1", "SLURM_PMIX_MAPPING_SERV=(vector,(0,1,1))"}));
    CHECK_FALSE(has_pmix_server({"SLURM_PMIX_MAPPING_SERVER=1", "SLURM_MPI_TYPE=pmix"}));
    using Folders = std::vector<std::string>;
    auto pmix_folders = [](const std::vector<std::string>& task, const std::string& tmp_fs, uid_t uid,
                           const std::string& step) {
        Folders out;
        for (const JobPath& folder : berth::plan::pmix_folders(task, tmp_fs, uid, step)) out.push_back(folder.path);
        return out;
    };
    CHECK(pmix_folders({"PMIX_SERVER_TMPDIR=/var/spool/slurmd/pmix.7.0/"}, "/scratch", 2001, "7.0") ==
          Folders{"/var/spool/slurmd/pmix.7.0", "/scratch/spmix_appdir_2001_7.0"});
    CHECK(pmix_folders({"SLURM_PMIX_TMPDIR=/dev/shm"}, "/scratch", 1, "7.0") == Folders{"/dev/shm/spmix_appdir_1_7.0"});
    CHECK(pmix_folders({"PMIX_SERVER_TMPDIR=../x", "SLURM_PMIX_TMPDIR=x"}, "", 1, "7.0").empty());
}

TEST_CASE("job environment: the key of a forwarded display is Slurm's own file in TmpFS, and no other", "[plan]") {
    using berth::plan::display_key;
    std::string display = "DISPLAY=localhost:20.0";
    CHECK(display_key({display, "XAUTHORITY=/tmp/.Xauthority-aBc123"}, "/tmp") == "/tmp/.Xauthority-aBc123");
    CHECK(display_key({display, "XAUTHORITY=/tmp/.Xauthority-aBc123"}, "") == "/tmp/.Xauthority-aBc123");
    CHECK(display_key({display, "XAUTHORITY=/local/n1/.Xauthority-x"}, "/local/n1") == "/local/n1/.Xauthority-x");
    // Of the user's own choice.
    CHECK(display_key({display, "XAUTHORITY=/home/alice/.Xauthority"}, "/tmp").empty());
    CHECK(display_key({display, "XAUTHORITY=/tmp/.Xauthority-/../../secret"}, "/tmp").empty());
    CHECK(display_key({display, "XAUTHORITY=/tmp/.Xauthority-aBc123"}, "/local").empty());
    // Not forwarded.
    CHECK(display_key({"DISPLAY=:0", "XAUTHORITY=/tmp/.Xauthority-aBc123"}, "/tmp").empty());
    CHECK(display_key({"XAUTHORITY=/tmp/.Xauthority-aBc123"}, "/tmp").empty());
    CHECK(display_key({display}, "/tmp").empty());
}
