#include "hooks/slurm_grant.hh"

#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::hooks;

namespace {

/// "none", "nothing", or the devices with what is known of them: "2 3", "MIG-1=4", and marks for whole and relative.
std::string granted(const std::vector<std::string>& job) {
    SlurmGrant grant = slurm_grant(job, "CUDA_VISIBLE_DEVICES");
    if (grant.says != SlurmGrant::Says::devices) return grant.says == SlurmGrant::Says::none ? "none" : "nothing";
    std::string out = grant.whole ? "whole" : "part";
    if (grant.relative) out += " relative";
    for (const SlurmGrant::Device& device : grant.devices) {
        out += cat(' ', device.uuid);
        if (!device.uuid.empty() && device.position) out += '=';
        if (device.position) out += cat(*device.position);
    }
    return out;
}

}  // namespace

TEST_CASE("slurm grant: what the variables of a step say", "[hooks][nvidia]") {
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=2,3"}) == "whole relative 2 3");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=1,2"}) == "whole relative 1 2");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=2,3", "SLURM_STEP_GPUS=2,3"}) == "whole 2 3");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=0,1"}) == "whole 0 1");
    CHECK(granted({"SLURM_STEP_GPUS=2,3"}) == "whole 2 3");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=", "SLURM_STEP_GPUS=2,3"}) == "whole 2 3");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=MIG-7,MIG-8", "SLURM_STEP_GPUS=2,3"}) == "whole MIG-7=2 MIG-8=3");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0,MIG-7", "SLURM_STEP_GPUS=1,2"}) == "whole relative 1 MIG-7=2");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=1,MIG-7", "SLURM_STEP_GPUS=1,2"}) == "whole 1 MIG-7=2");
    // A script that has chosen among the step's.
    CHECK(granted({"CUDA_VISIBLE_DEVICES=1", "SLURM_STEP_GPUS=4,5"}) == "part relative 5");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=5", "SLURM_STEP_GPUS=4,5"}) == "part 5");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=6", "SLURM_STEP_GPUS=4,5"}) == "part 6");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=MIG-7", "SLURM_STEP_GPUS=2,3"}) == "part MIG-7");
    // A batch script, and steps of releases that do not tell.
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0,1", "SLURM_JOB_GPUS=2,3"}) == "part 0 1");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0, 1"}) == "part 0 1");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=0", "SLURM_STEP_GPUS=a"}) == "part 0");
}

TEST_CASE("slurm grant: a step without GPUs, and one of which nothing is said", "[hooks][nvidia]") {
    CHECK(granted({}) == "nothing");
    CHECK(granted({"SLURM_GPUS_ON_NODE=2"}) == "nothing");
    CHECK(granted({"SLURM_JOB_GPUS=0,1"}) == "none");
    CHECK(granted({"SLURM_JOB_GPUS="}) == "nothing");
    CHECK(granted({"SLURM_JOB_GPUS=0,1", "SLURM_GPUS_ON_NODE=1"}) == "nothing");
    CHECK(granted({"CUDA_VISIBLE_DEVICES=NoDevFiles", "SLURM_STEP_GPUS=0"}) == "none");
    CHECK(slurm_grant({"SLURM_STEP_GPUS=2", "CUDA_VISIBLE_DEVICES=0"}, "CUDA_VISIBLE_DEVICES").source ==
          "SLURM_STEP_GPUS=2");
    CHECK(slurm_grant({"SLURM_STEP_GPUS=2", "ROCR_VISIBLE_DEVICES=2"}, "ROCR_VISIBLE_DEVICES").source ==
          "ROCR_VISIBLE_DEVICES=2");
}
