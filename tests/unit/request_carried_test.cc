#include "runtime/request/carried.hh"

#include "runtime/request/frozen.hh"
#include "runtime/request/mig.hh"
#include "tests/catch.hh"

using namespace berth::plan;
using Catch::Contains;

namespace {

std::string carried(const std::string& option, const std::string& value) {
    return carried_option(option) + "=" + value;
}

}  // namespace

TEST_CASE("carried options: a batch script has those that Slurm left in its environment", "[plan][release]") {
    CHECK(carried_option("container-image") == "SLURM_SPANK__SLURM_SPANK_OPTION_berth_container_image");
    GivenOptions options;
    add_carried_options(options, {carried("container-mounts", "/a:/b"), "SLURM_SPANK_BERTH_OPTIONS=container-image",
                                  carried("container-image", "debian"), carried("container-remap-root", "(null)"),
                                  carried("container-magic", "x"), "HOME=/home/alice"});
    CHECK(options == GivenOptions{{"container-image", "debian"},
                                  {"container-mounts", "/a:/b"},
                                  {"container-remap-root", ""}});
    GivenOptions none;
    add_carried_options(none, {"HOME=/home/alice"});
    CHECK(none.empty());
}

TEST_CASE("carried options: what Slurm has brought itself wins, an opposite as well, and the empty value stays",
          "[plan]") {
    GivenOptions options = {{"container-image", "alpine"}, {"container-readonly", ""}};
    add_carried_options(options, {carried("container-image", "debian"), carried("container-writable", "(null)"),
                                  carried("container-name", "")});
    CHECK(options == GivenOptions{{"container-image", "alpine"}, {"container-name", ""}, {"container-readonly", ""}});
}

TEST_CASE("carried variables: each has a name that --export-file leaves", "[plan]") {
    CHECK(control_name(frozen_variable) == "BERTH_FROZEN");
    CHECK(carried_variable(frozen_variable) == "SLURM_SPANK_BERTH_FROZEN");
    CHECK(submission_mark() == "SLURM_SPANK_BERTH_OPTIONS");
    // --mig itself goes to Prolog by that way, and has no other name.
    for (const char* variable : script_variables()) CHECK(carried_variable(variable) != mig_variable);
}

TEST_CASE("carried options: what has not come is named, for a submission that had it", "[plan]") {
    GivenOptions options = {{"container-image", "debian"}, {"container-readonly", ""}};
    std::string mark = submission_mark() + "=container-image container-mounts container-writable container-env";
    CHECK_THAT(missing_note(options, {mark}),
               Catch::StartsWith("--container-mounts, --container-env: sbatch took this"));
    CHECK(missing_note(options, {submission_mark() + "=container-image container-readonly"}).empty());
    CHECK(missing_note(options, {}).empty());
    CHECK_THAT(missing_note({}, {submission_mark() + "=a\x1b[1mb"}), !Contains("\x1b"));
}
