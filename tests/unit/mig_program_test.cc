// The program berth-mig, as Prolog and Epilog run it.
#include <fcntl.h>
#include <signal.h>

#include "runtime/base/child.hh"
#include "runtime/mig/layout/arrange.hh"
#include "runtime/mig/layout/models.hh"
#include "tests/catch.hh"
#include "tests/fixtures/failing_calls.hh"
#include "tests/unit/mig_node.hh"

using namespace berth;
using namespace berth::mig;
using namespace berth::mig::test;

namespace {

/// The program, as Prolog and Epilog run it.
struct Program {
    Node node;
    fixtures::TempFolder programs;  // /dev/shm may be for no programs
    std::string devices, scontrol, request = "3g.40gb,1g.10gb:3", cuda = "0", output = {};

    explicit Program(const std::vector<std::string>& models) : node(models) {
        fs::create_directory(node.folder / "dev");
        for (size_t i = 0; i < models.size(); ++i) node.folder.create(cat("dev/nvidia", i)).reset();
        devices = cat(node.folder / "dev", "/nvidia[0-", models.size() - 1, ']');
        scontrol = programs / "scontrol";
        answers("gpu:h100:1(IDX:0)");
    }
    void answers(const std::string& value) {
        Fd file = programs.create("scontrol");
        sys::write_all(file.get(), cat("#!/bin/sh\n[ \"$*\" = '--details show job 7' ] && echo '     Nodes=n1 GRES=",
                                       value, "'\n"), "scontrol");
        fs::permissions(scontrol, fs::perms::owner_all);
    }
    std::vector<std::string> words(const std::string& command, const std::vector<std::string>& more = {}) const {
        std::vector<std::string> out{command, "--state", node.state, "--log", node.log, "--library", stand_in()};
        out.insert(out.end(), more.begin(), more.end());
        if (command == "apply")
            for (const std::string& word : {std::string("--devices"), devices, std::string("--scontrol"), scontrol})
                out.push_back(word);
        return out;
    }
    std::vector<std::string> environment(const std::string& gpus = "0") const {
        std::vector<std::string> out{cat("BERTH_FAKE_NVML=", std::getenv("BERTH_FAKE_NVML")), "PATH=/usr/bin:/bin",
                                     "CUDA_VISIBLE_DEVICES=" + cuda};
        if (!gpus.empty()) out.push_back("SLURM_JOB_GPUS=" + gpus);
        if (!request.empty()) out.push_back("SPANK_BERTH_MIG=" + request);
        return out;
    }
    /// The exit code; `output` has what is printed.
    int run(const std::vector<std::string>& words, const std::string& gpus = "0") {
        Fd errors = node.folder.create("errors");
        std::vector<std::string> variables = environment(gpus);
        Child child(beside_tests().parent_path() / "berth-mig", words, -1, errors.get(), &variables);
        output = sys::read_all(child.output(), 1 << 20, "output");
        int code = child.wait();
        output += sys::read_file(node.folder / "errors");
        return code;
    }
    /// Kills it before its `number`th change of anything, its own files and the driver's; false when there are not so
    /// many.
    bool killed_at(int number, const std::vector<std::string>& words) const {
        int left = number;
        pid_t own = 0;  // the first; others are those of scontrol
        fixtures::WatchedEnd end = fixtures::run_watched(
            {beside_tests().parent_path() / "berth-mig", words, node.folder / "errors", environment()},
            fixtures::changing_calls,
            [&](const fixtures::Call& call) {
                if (own == 0) own = call.thread();
                return call.thread() == own && --left == 0 ? fixtures::is_killed : fixtures::goes_on;
            });
        return end.code == 128 + SIGKILL;
    }
    std::string told() const {
        return fs::exists(node.state + "/jobs/7") ? sys::read_file(node.state + "/jobs/7") : "";
    }
};

const Layout before_job = filled({{14, {0, 2}, {}}, {9, {4, 4}, {}}});

}  // namespace

TEST_CASE("berth-mig: apply divides the job's GPUs and says so, restore brings them back", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.node.divide(0, before_job);
    const Layout other = filled({{19, {0, 1}, {}}});
    program.node.divide(1, other);
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(program.output.empty());
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    CHECK(same_layout(program.node.now(0), arrange(*model_of("H100-80GB"), plan::parse_mig(program.request))));
    // Slurm has it of another job.
    CHECK(same_layout(program.node.now(1), other));
    CHECK_THAT(sys::read_file(program.node.log),
               Catch::Contains("job 7: GPU GPU-0 (/dev/nvidia0): create 3g.40gb at ") &&
                   Catch::Contains("job 7: 3g.40gb,1g.10gb:3 on each of 1 GPUs\n"));
    // That of another job changes nothing.
    REQUIRE(program.run(program.words("restore", {"--job", "8"})) == 0);
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    REQUIRE(program.run(program.words("restore", {"--job", "7"})) == 0);
    CHECK(program.told().empty());
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(records(program.node) == 0);
}

TEST_CASE("berth-mig: Slurm's numbers count the files of --devices", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.devices = program.node.folder / "dev/nvidia[1,0]";
    REQUIRE(program.run(program.words("apply", {"--job", "7"}), "0") == 0);
    CHECK(program.told() == "ready 3g.40gb,1g.10gb:3\n");
    CHECK(program.node.now(0).empty());
    CHECK(program.node.now(1).size() == 4);
}

TEST_CASE("berth-mig: what cannot be leaves the GPUs, tells the job why and fails no Prolog", "[mig]") {
    Program program({"H100-80GB", "H100-80GB"});
    program.node.divide(0, before_job);
    auto refused = [&](const std::string& gpus = "0") {
        REQUIRE(program.run(program.words("apply", {"--job", "7"}), gpus) == 0);
        CHECK(same_layout(program.node.now(0), before_job));
        CHECK(records(program.node) == 0);
        CHECK_THAT(sys::read_file(program.node.log), Catch::EndsWith("job 7: refused: " + program.told()));
        return program.told();
    };
    program.request = "4g.40gb:2";
    CHECK(refused() == "an NVIDIA H100 80GB HBM3 can have 1 MIG devices 4g.40gb, not 2\n");
    program.request = "$(reboot)";
    CHECK_THAT(refused(), Catch::StartsWith("'$(reboot)' is no profile of a MIG device"));
    program.request = "7g.80gb";
    CHECK_THAT(refused("2"), Catch::Contains("write those of all GPUs, in the order of slurmd -G"));
    CHECK_THAT(refused(""), Catch::StartsWith("the job holds no GPU"));
    program.answers("shard:h100:2(IDX:0)");
    CHECK_THAT(refused(), Catch::StartsWith("the job holds a part of a GPU (shard)"));
    program.answers("gpu:1(IDX:0)");
    program.cuda = "MIG-1";
    CHECK_THAT(refused(), Catch::StartsWith("the job holds MIG devices"));
    program.cuda = "0";
    program.node.with("error nvmlInit_v2 9");
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK_THAT(program.told(), Catch::StartsWith("starting NVML: it answers DRIVER_NOT_LOADED"));
    program.node.with("");
    fs::remove(program.scontrol);
    std::string no_scontrol = "scontrol-of-none";
    CHECK_THAT(refused(), Catch::Contains("/scontrol"));
    std::swap(program.scontrol, no_scontrol);
    CHECK(refused() == "running scontrol-of-none: command not found on this node (PATH=/usr/bin:/bin); name Slurm's "
                       "scontrol by berth-mig apply --scontrol\n");
    std::swap(program.scontrol, no_scontrol);
    program.answers("gpu:1(IDX:0)");
    fs::remove(program.node.folder / "dev/nvidia1");
    CHECK_THAT(refused(), Catch::Contains("nvidia1 of --devices is not there"));
    // A state folder that cannot be written.
    fs::remove_all(program.node.state);
    program.node.folder.create("state").reset();
    CHECK(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
}

TEST_CASE("berth-mig: a GPU that is left changed fails Prolog and Epilog", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.node.with("error nvmlDeviceCreateGpuInstanceWithPlacement 999");
    CHECK(program.run(program.words("apply", {"--job", "7"})) == 1);
    CHECK_THAT(program.output, Catch::Contains("; and bringing back what the GPU was: "));
    CHECK(program.run(program.words("restore", {"--job", "7"})) == 1);
    CHECK(program.told().empty());
    program.node.with("");
    State(program.node.state, {}).tell(6, "of a job from before a reboot");
    CHECK(program.run(program.words("restore", {"--all", "--dry-run"})) == 0);
    CHECK_THAT(program.output, Catch::Contains("job -: GPU GPU-0 (/dev/nvidia0): create 2g.20gb at 0:2"));
    CHECK(records(program.node) == 1);
    CHECK(program.run(program.words("restore", {"--all"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(State::is_empty(program.node.state));
}

TEST_CASE("berth-mig: a driver that hangs is given up, and fails Prolog and Epilog", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.node.with("hang nvmlDeviceCreateGpuInstanceWithPlacement");
    CHECK(program.run(program.words("apply", {"--job", "7", "--timeout", "1"})) == 128 + SIGALRM);
    CHECK(records(program.node) == 1);
    program.node.with("hang nvmlInit_v2");
    CHECK(program.run(program.words("restore", {"--job", "7", "--timeout", "1"})) == 128 + SIGALRM);
    program.node.with("");
    CHECK(program.run(program.words("restore", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
}

TEST_CASE("berth-mig: a job that asks for nothing finds its GPUs as they were before an earlier one", "[mig]") {
    Program program({"H100-80GB"});
    program.node.divide(0, before_job);
    program.request.clear();
    // Not even Slurm is asked.
    fs::remove(program.scontrol);
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK_FALSE(fs::exists(program.node.state));
    REQUIRE(applied(program.node, 6, "7g.80gb", {0}).empty());
    program.answers("gpu:1(IDX:0)");
    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
    CHECK(same_layout(program.node.now(0), before_job));
    CHECK(records(program.node) == 0);
    CHECK(program.told().empty());
}

TEST_CASE("berth-mig: killed before any change of apply or restore, rebooted or not, the first layout comes back",
          "[mig]") {
    for (bool reboot : {false, true})
        for (const char* command : {"apply", "restore"}) {
            int kills = 0;
            for (int number = 1;; ++number) {
                INFO(command << ' ' << number << (reboot ? " and a reboot" : ""));
                Program program({"H100-80GB"});
                program.request = "3g.40gb,1g.10gb";
                program.node.divide(0, before_job);
                if (std::string(command) == "restore")
                    REQUIRE(program.run(program.words("apply", {"--job", "7"})) == 0);
                bool killed = program.killed_at(number, program.words(command, {"--job", "7"}));
                // All instances are gone then. Before the first change nobody has written down what they were.
                if (reboot) {
                    program.node.reboot();
                    if (records(program.node) == 0) program.node.divide(0, before_job);
                }
                REQUIRE(program.run(program.words("restore", {"--job", "7"})) == 0);
                REQUIRE(same_layout(program.node.now(0), before_job));
                REQUIRE(records(program.node) == 0);
                REQUIRE(program.told().empty());
                if (!killed) break;
                ++kills;
            }
            CHECK(kills > 20);
        }
}

TEST_CASE("berth-mig: plan needs no GPU", "[mig]") {
    Program program({"A30"});
    CHECK(program.run({"plan", "--model", "H100-80GB", "3g.40gb,1g.10gb"}) == 0);
    CHECK(program.output == "create 3g.40gb at 0:4\ncreate compute instance of 3g.40gb at 0:4\ncreate 1g.10gb at 4:1\n"
                            "create compute instance of 1g.10gb at 4:1\n");
    CHECK(program.run({"plan", "--model", "A30", "1g.10gb"}) == 1);
    CHECK_THAT(program.output, Catch::StartsWith("berth-mig: an A30 has no MIG profile 1g.10gb; it has 1g.6gb"));
    CHECK(program.run({"plan", "--model", "V100", "1g.10gb"}) == 1);
    CHECK_THAT(program.output, Catch::Contains("is no GPU of the table; it has A100-40GB"));
}
