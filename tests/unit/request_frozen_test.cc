#include "runtime/request/frozen.hh"

#include "tests/catch.hh"

using namespace berth::plan;

TEST_CASE("frozen: a digest counts for the image that it was asked for, and no other", "[request]") {
    std::string digest = "sha256:" + std::string(64, 'a'), variable = std::string(frozen_variable) + "=";
    std::vector<std::string> environment = {"A=1", variable + frozen_value("r.example/x:1", berth::Digest(digest))};
    CHECK(frozen_digest(environment, "r.example/x:1") == digest);
    CHECK_FALSE(frozen_digest(environment, "r.example/x"));
    CHECK_FALSE(frozen_digest(environment, "r.example/x:12"));
    CHECK_FALSE(frozen_digest({}, "r.example/x:1"));
}

TEST_CASE("frozen: a digest that this release does not know is refused, more words than it knows are not",
          "[request][release]") {
    std::string variable = std::string(frozen_variable) + "=", digest = "sha256:" + std::string(64, 'a');
    for (const char* bad : {"x ../../etc", "x sha256:", "x sha512:0123", "x "})
        CHECK_THROWS_WITH(frozen_digest({variable + bad}, "x"),
                          Catch::Contains("the image x: srun or sbatch found that it is ") &&
                              Catch::Contains("; name the image by its sha256 digest"));
    for (const char* other : {"x", " ", "y sha512:0123"}) CHECK_FALSE(frozen_digest({variable + other}, "x"));
    CHECK(frozen_digest({variable + "x " + digest + " new words"}, "x") == digest);
}

TEST_CASE("frozen: which logins were refused is told for the image that was asked for", "[request]") {
    std::string variable = std::string(refused_variable) + "=";
    std::vector<std::string> words = {"r.example=%2Fa", "r.example=b"};
    CHECK(refused_logins({"A=1", variable + refused_value("r.example/x:1", words)}, "r.example/x:1") == words);
    CHECK(refused_logins({variable + refused_value("r.example/x:1", words)}, "r.example/x").empty());
    CHECK(refused_logins({variable + "x  a "}, "x") == std::vector<std::string>{"a"});
    CHECK(refused_logins({}, "x").empty());
}

TEST_CASE("frozen: where nodes agree is told for the image that was asked for, by srun's address", "[request]") {
    std::vector<std::string> environment = {
        std::string(agreement_variable) + "=" + agreement_value("r.example/x:1", "4711 secret"),
        "SLURM_SRUN_COMM_HOST=192.0.2.7"};
    CHECK(agreement_address(environment, "r.example/x:1", "n1", 3) == "192.0.2.7 4711 secret n1 3");
    CHECK(agreement_address(environment, "r.example/x", "n1", 3).empty());
    std::vector<std::string> newer = environment;
    newer[0] += " new words";
    CHECK(agreement_address(newer, "r.example/x:1", "n1", 3) == "192.0.2.7 4711 secret n1 3");
    newer.insert(newer.begin(), newer[0]);
    forget_agreement(newer);
    CHECK(newer == std::vector<std::string>{"SLURM_SRUN_COMM_HOST=192.0.2.7"});
    environment.pop_back();
    CHECK(agreement_address(environment, "r.example/x:1", "n1", 3).empty());
}
