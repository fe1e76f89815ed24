#include <catch2/catch.hpp>

#include "runtime/request/frozen.hh"

using namespace berth::plan;

TEST_CASE("frozen: a digest counts for the image that it was asked for, and no other", "[plan]") {
    std::string digest = "sha256:" + std::string(64, 'a'), variable = std::string(frozen_variable) + "=";
    std::vector<std::string> environment = {"A=1", variable + frozen_value("r.example/x:1", berth::Digest(digest))};
    CHECK(frozen_digest(environment, "r.example/x:1") == digest);
    CHECK_FALSE(frozen_digest(environment, "r.example/x"));
    CHECK_FALSE(frozen_digest(environment, "r.example/x:12"));
    CHECK_FALSE(frozen_digest({}, "r.example/x:1"));
}

TEST_CASE("frozen: what is no digest is none", "[plan]") {
    std::string variable = std::string(frozen_variable) + "=";
    for (const char* bad : {"x ../../etc", "x sha256:", "x", "x ", " "})
        CHECK_FALSE(frozen_digest({variable + bad}, "x"));
}

TEST_CASE("frozen: where nodes agree is told for the image that was asked for, by srun's address", "[plan]") {
    std::vector<std::string> environment = {
        std::string(agreement_variable) + "=" + agreement_value("r.example/x:1", "4711 secret"),
        "SLURM_SRUN_COMM_HOST=192.0.2.7"};
    CHECK(agreement_address(environment, "r.example/x:1", "n1") == "192.0.2.7 4711 secret n1");
    CHECK(agreement_address(environment, "r.example/x", "n1").empty());
    environment.pop_back();
    CHECK(agreement_address(environment, "r.example/x:1", "n1").empty());
}
