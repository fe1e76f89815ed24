// The record of a GPU, and which GPUs a job holds: pure.
#include "runtime/base/error.hh"
#include "runtime/mig/layout/job_gpus.hh"
#include "runtime/mig/layout/record.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::mig;

namespace {

template <typename Function>
std::string problem(Function function) {
    try {
        function();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

}  // namespace

TEST_CASE("MIG: a record says what it was made of, and one that is cut off or of another release is refused", "[mig]") {
    Record record{
        "GPU-a", 4711, {{19, {0, 1}, {{0, {0, 1}}}}, {14, {2, 2}, {{0, {0, 1}}, {7, {1, 1}}}}, {9, {4, 4}, {}}}};
    std::string text = record_text(record);
    CHECK(text ==
          "berth-mig 1\ngpu GPU-a\njob 4711\ninstance 19 0 1\ncompute 0 0 1\ninstance 14 2 2\ncompute 0 0 1\n"
          "compute 7 1 1\ninstance 9 4 4\nend\n");
    CHECK(parse_record(text) == record);
    CHECK(parse_record(record_text({"GPU-b", 1, {}})) == Record{"GPU-b", 1, {}});
    for (size_t length = 0; length < text.size(); ++length)
        CHECK_THROWS_AS(parse_record(text.substr(0, length)), Error);
    for (const char* other : {"berth-mig 2\ngpu GPU-a\njob 1\nend\n", "berth-mig 1\njob 1\nend\n",
                              "berth-mig 1\ngpu GPU-a\njob 4294967296\nend\n", "berth-mig 1\ngpu GPU-a\nboot 7\nend\n",
                              "berth-mig 1\ngpu GPU-a\ncompute 0 0 1\nend\n", "berth-mig 1\ngpu a b\nend\n",
                              "berth-mig 1\ngpu GPU-a\ninstance 1 2\nend\n", "berth-mig 1\ngpu GPU-a\n\nend\n"})
        CHECK_THROWS_AS(parse_record(other), Error);
}

TEST_CASE("MIG: files of gres.conf, in its spelling", "[mig]") {
    using Files = std::vector<std::string>;
    CHECK(device_files("/dev/nvidia[0-2]") == Files{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2"});
    CHECK(device_files("/dev/nvidia3") == Files{"/dev/nvidia3"});
    CHECK(device_files("/dev/nvidia[2-3,0],/dev/nvidia1") ==
          Files{"/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia0", "/dev/nvidia1"});
    CHECK(minor_of("/dev/nvidia10") == 10);
    for (const char* text : {"", "/dev/nvidia", "/dev/nvidia[0-", "/dev/nvidia[3-1]", "/dev/nvidia[0-999999]",
                             "/dev/nvidia[]", "/dev/nvidia0,", "/dev/nvidiactl", "/dev/dri/renderD128",
                             "/dev/nvidia[0-1]x", "/dev/nvidia99999999999999999999"}) {
        INFO(text);
        CHECK_THAT(problem([&] { device_files(text); }),
                   Catch::Contains("in the order of slurmd -G, as /dev/nvidia[0-7]"));
    }
}

TEST_CASE("MIG: SLURM_JOB_GPUS counts files, and a job with MIG devices or none is refused", "[mig]") {
    using Files = std::vector<std::string>;
    // As on a node where slurmd lists them in another order than their minors.
    const Files files{"/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia0"};
    CHECK(files_of_job(files, "0,2", "0,2") == Files{"/dev/nvidia2", "/dev/nvidia0"});
    CHECK(files_of_job(files, "1", "GPU-a") == Files{"/dev/nvidia3"});
    CHECK_THAT(problem([&] { files_of_job(files, "", ""); }), Catch::Contains("the job holds no GPU"));
    CHECK_THAT(problem([&] { files_of_job(files, "1", "MIG-a"); }), Catch::Contains("holds MIG devices"));
    for (const char* gpus : {"3", "0,3", "x", "0,", "-1"})
        CHECK_THAT(problem([&] { files_of_job(files, gpus, "0"); }), Catch::Contains("write those of all GPUs"));
}

// Answers of scontrol 22.05 to 26.05, shortened.
TEST_CASE("MIG: a job with a shard or MPS holds no whole GPU, whatever its name says", "[mig]") {
    auto refused = [](const std::string& gres, const std::string& name = "train") {
        return problem([&] {
            require_whole_gpus("JobId=7 JobName=" + name + "\n   JOB_GRES=" + gres +
                               "\n     Nodes=n1 CPU_IDs=0-3 Mem=0 GRES=" + gres + "\n   MinCPUsNode=1\n");
        });
    };
    CHECK(refused("gpu:h100:2(IDX:0-1)").empty());
    CHECK(refused("gpu:1(IDX:3),nic:1(IDX:0)").empty());
    CHECK_THAT(refused("shard:h100:2(IDX:0)"), Catch::Contains("a part of a GPU (shard)"));
    CHECK_THAT(refused("gpu:1(IDX:1),shard:2(IDX:0)"), Catch::Contains("a part of a GPU (shard)"));
    CHECK_THAT(refused("mps:50(IDX:0)"), Catch::Contains("a part of a GPU (mps)"));
    CHECK_THAT(refused("shard:2(IDX:0)", "x\n GRES=gpu:8"), Catch::Contains("a part of a GPU (shard)"));
    CHECK_THAT(refused(""), Catch::Contains("does not say that the job holds GPUs"));
    CHECK_THAT(problem([] { require_whole_gpus(""); }), Catch::Contains("does not say"));
}
