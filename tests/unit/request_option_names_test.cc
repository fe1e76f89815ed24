#include "runtime/request/option_names.hh"

#include "tests/catch.hh"

using namespace berth::plan;

TEST_CASE("option names: what srun was given is known by name where Slurm drops it", "[request][release]") {
    GivenOptions options = {{"container-image", "debian"}, {"container-readonly", ""}};
    CHECK(names_of(options) == "container-image container-readonly");
    CHECK(names_of({}) == "");
    std::string variable = std::string(options_variable) + "=";
    for (const char* good : {"", "container-image", "container-image no-container-mount-home", " container-name "})
        CHECK_NOTHROW(check_option_names({variable + good}));
    CHECK_NOTHROW(check_option_names({}));
    CHECK_THROWS_WITH(check_option_names({variable + "container-image container-magic"}),
                      "--container-magic: the berth of this node does not have this option, which that of srun has; "
                      "leave it out, or choose nodes of srun's release");
}
