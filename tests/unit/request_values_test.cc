#include "runtime/request/values.hh"

#include "runtime/base/error.hh"
#include "runtime/request/mount_values.hh"
#include "runtime/request/mounts.hh"
#include "runtime/request/options.hh"
#include "runtime/request/reference.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;
using Catch::Contains;

namespace {

Signs of_job() {
    Signs out = signs_in({"HOME=/home/al", "SLURM_JOB_ID=70", "SLURM_STEP_ID=2", "SLURM_ARRAY_JOB_ID=68",
                          "SLURM_ARRAY_TASK_ID=3", "SLURM_JOB_NAME=train", "SLURMD_NODENAME=n1", "SLURM_NODEID=0"});
    out.user = "al";
    return out;
}

}  // namespace

TEST_CASE("values: a variable that no shell has expanded is refused where the option is given", "[options]") {
    for (const char* value : {"$HOME/x.sqsh", "/data/${USER}/x.sqsh", "oci:$DIR", "docker://$IMAGE", "r.io/$NAME:1"})
        CHECK_THROWS_WITH(check_option("container-image", value), Contains("#SBATCH") && Contains("^"));
    for (const char* value : {"$HOME:/h", "/a:/$X", "/a,/b/${C}:/d", "/a:${T}"})
        CHECK_THROWS_WITH(check_option("container-mounts", value), Contains("#SBATCH") && Contains("^"));
    CHECK_THROWS_WITH(check_option("container-workdir", "$HOME"), Contains("#SBATCH"));
    CHECK_THROWS_WITH(check_option("container-environment", "$HOME/e.toml"), Contains("#SBATCH"));
    CHECK_THROWS_WITH(check_option("container-save", "$HOME/x.sqsh"), Contains("#SBATCH"));
    CHECK_THROWS_WITH(check_option("container-save", "/a/job$.sqsh"), Contains("#SBATCH"));
    CHECK_THROWS_WITH(check_option("container-name", "job-$SLURM_JOB_ID"), Contains("%j") && Contains("^"));
    CHECK_THROWS_WITH(check_option("container-name", "cash$"), Contains("%j"));
}

TEST_CASE("hostile row 55: any other $ is a character of a path, and of a login name", "[options]") {
    for (const char* value : {"$oauthtoken@nvcr.io#nvidia/pytorch:1", "docker://$oauthtoken@nvcr.io/a/b", "/a/$(d)/x",
                              "/a$/b", "./$1", "/a/$$"})
        CHECK_NOTHROW(check_option("container-image", value));
    for (const char* value : {"/$(d):/c", "/a$:/b$", "/a:/$1"}) CHECK_NOTHROW(check_option("container-mounts", value));
    CHECK_NOTHROW(check_option("container-save", "/$(d)/x.sqsh"));
}

TEST_CASE("values: ~/ is the home, and no other", "[options]") {
    CHECK(parse_mounts("~/d:/d,~:/h")[0].source == "~/d");
    CHECK(parse_mounts("~/d:/d,~:/h")[1].source == "~");
    CHECK(with_home("~/d", "/home/al") == "/home/al/d");
    CHECK(with_home("~", "/home/al") == "/home/al");
    CHECK(with_home("/~/d", "/home/al") == "/~/d");
    auto image = [](const char* text, const char* home) { return image_with_home(parse_reference(text), home); };
    CHECK(image("~/x.sqsh", "/home/al") == parse_reference("/home/al/x.sqsh"));
    CHECK(image("oci:~/dir:tag", "/home/al") == parse_reference("oci:/home/al/dir:tag"));
    CHECK(image("debian:12", "") == parse_reference("debian:12"));
    CHECK_THROWS_WITH(with_home("~/d", ""), Contains("no home"));
    CHECK_THROWS_WITH(with_home("~/d", "/" + std::string(4094, 'h')), Contains("longer than 4095"));
    for (const char* option : {"container-image", "container-mounts", "container-save", "container-environment"})
        CHECK_THROWS_WITH(check_option(option, "~bob/x"), Contains("~bob is not looked up"));
    CHECK_THROWS_WITH(check_option("container-image", "oci:~bob/x"), Contains("~bob is not looked up"));
    CHECK_THROWS_WITH(check_option("container-workdir", "~/x"), Contains("as it is in the container"));
    for (const char* option : {"container-image", "container-mounts", "container-save", "container-environment"})
        CHECK_NOTHROW(check_option(option, "~/x.toml"));
}

TEST_CASE("values: the signs of Slurm's output files stand for the job", "[options]") {
    Signs signs = of_job();
    CHECK(with_signs("%j %J %A %a %u %x %N %n %%", signs) == "70 70.2 68 3 al train n1 0 %");
    CHECK(with_signs("plain", {}) == "plain");
    Signs alone = signs_in({"SLURM_JOB_ID=5"});
    CHECK(with_signs("%A_%a", alone) == "5_4294967294");
    CHECK_THROWS_WITH(with_signs("a-%j", {}), Contains("outside of a job"));
    for (const std::string& name : {std::string("a/b"), std::string("a\nb"), std::string(1025, 'x')}) {
        signs.job_name = name;
        CHECK_THROWS_WITH(with_signs("%x", signs), Contains("cannot be part of a name"));
    }
    for (const char* bad : {"%", "%t", "a%", "%4j", "%%%"}) {
        CHECK_THROWS_WITH(check_option("container-name", bad), Contains("%%") && Contains("^"));
        CHECK_THROWS_WITH(check_option("container-save", std::string("/d/") + bad), Contains("%%"));
    }
    CHECK_NOTHROW(check_option("container-name", "job-%j-%%:create"));
}

TEST_CASE("values: each --container-mount adds, and all of them travel", "[options]") {
    CHECK(joined_mounts({"/a:/b", "/c,/d"}) == "/a:/b,/c,/d");
    CHECK_THROWS_WITH(joined_mounts({std::string(60'000, 'a'), std::string(60'000, 'b')}), Contains("KiB"));
    CHECK_THROWS_AS(check_option(mount_option, ""), Error);
    GivenOptions options = {{mount_option, "/c:/d"}};
    complete_mounts(options, {"SLURM_BERTH_MOUNTS=/a:/b,/c:/d"});
    CHECK(*given(options, mount_option) == "/a:/b,/c:/d");
    // Of another command.
    for (const char* other : {"/a:/b", "/a:/b,/x/c:/d", "", "x/c:/d"}) {
        options = {{mount_option, "/c:/d"}};
        complete_mounts(options, {std::string("SLURM_BERTH_MOUNTS=") + other});
        CHECK(*given(options, mount_option) == "/c:/d");
    }
    options = {{"container-mounts", "/m"}, {mount_option, "/c:/d"}};
    complete_mounts(options, {});
    Request request = request_of(options);
    REQUIRE(request.mounts.size() == 2);
    CHECK(request.mounts[0].source == "/m");
    CHECK(request.mounts[1].target == "/d");
}
