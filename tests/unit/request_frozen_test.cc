#include "runtime/request/frozen.hh"

#include "tests/catch.hh"

using namespace berth::plan;

TEST_CASE("frozen: a digest counts for the image that it was asked for, and no other", "[plan]") {
    std::string digest = "sha256:" + std::string(64, 'a'), variable = std::string(frozen_variable) + "=";
    std::vector<std::string> environment = {"A=1", variable + frozen_value("r.example/x:1", berth::Digest(digest))};
    CHECK(frozen_digest(environment, "r.example/x:1") == digest);
    CHECK_FALSE(frozen_digest(environment, "r.example/x"));
    CHECK_FALSE(frozen_digest(environment, "r.example/x:12"));
    CHECK_FALSE(frozen_digest({}, "r.example/x:1"));
}

TEST_CASE("frozen: a digest that this release does not know is refused, more words than it knows are not",
          "[plan][release]") {
    std::string variable = std::string(frozen_variable) + "=", digest = "sha256:" + std::string(64, 'a');
    for (const char* bad : {"x ../../etc", "x sha256:", "x sha512:0123", "x "})
        CHECK_THROWS_WITH(frozen_digest({variable + bad}, "x"),
                          Catch::Contains("the image x: srun or sbatch found that it is ") &&
                              Catch::Contains("; name the image by its sha256 digest"));
    for (const char* other : {"x", " ", "y sha512:0123"}) CHECK_FALSE(frozen_digest({variable + other}, "x"));
    CHECK(frozen_digest({variable + "x " + digest + " new words"}, "x") == digest);
}

TEST_CASE("frozen: where nodes agree is told for the image that was asked for, by srun's address", "[plan]") {
    std::vector<std::string> environment = {
        std::string(agreement_variable) + "=" + agreement_value("r.example/x:1", "4711 secret"),
        "SLURM_SRUN_COMM_HOST=192.0.2.7"};
    CHECK(agreement_address(environment, "r.example/x:1", "n1", 3) == "192.0.2.7 4711 secret n1 3");
    CHECK(agreement_address(environment, "r.example/x", "n1", 3).empty());
    std::vector<std::string> newer = environment;
    newer[0] += " new words";
    CHECK(agreement_address(newer, "r.example/x:1", "n1", 3) == "192.0.2.7 4711 secret n1 3");
    environment.pop_back();
    CHECK(agreement_address(environment, "r.example/x:1", "n1", 3).empty());
}
