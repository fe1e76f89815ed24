#include "runtime/request/mig.hh"

#include "runtime/base/error.hh"
#include "tests/catch.hh"

using namespace berth;
using namespace berth::plan;

TEST_CASE("--mig: profiles with counts, each once in the spelling that is passed on", "[request][mig]") {
    CHECK(parse_mig("1g.10gb") == MigRequest{{"1g.10gb", 1}});
    CHECK(parse_mig("3g.40gb,1g.10gb:4") == MigRequest{{"3g.40gb", 1}, {"1g.10gb", 4}});
    CHECK(parse_mig("1g.10gb,1g.10gb+me,1g.10gb:2") == MigRequest{{"1g.10gb", 3}, {"1g.10gb+me", 1}});
    CHECK(parse_mig("7g.141gb") == MigRequest{{"7g.141gb", 1}});
    CHECK(parse_mig("1g.24gb-me") == MigRequest{{"1g.24gb-me", 1}});
    CHECK(mig_text(parse_mig("1g.10gb,2g.20gb:1,1g.10gb")) == "1g.10gb:2,2g.20gb");
}

TEST_CASE("--mig: mistakes are told by the word that has them", "[request][mig]") {
    auto message = [](const char* text) {
        try {
            parse_mig(text);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    for (const char* text : {"", "1g", "1g.10", "10gb", "g.10gb", "1g.10GB", "1g.10gb+", "1g.10gb+ME", "1g.10gb,",
                             "01g.10gb", "1g.10gb=2", "1g.1000gb", "1g.10gb+$(id)", "1g.10gb\n", "1g.10gb 2"})
        CHECK_THAT(message(text), Catch::Contains("is no profile of a MIG device"));
    for (const char* text : {"1g.10gb:", "1g.10gb:0", "1g.10gb:9", "1g.10gb:-1", "1g.10gb:1:1", "1g.10gb:x"})
        CHECK_THAT(message(text), Catch::Contains("has to be from 1 to 8"));
    CHECK_THAT(message("1g.10gb:7,2g.20gb:2"), Catch::Contains("more MIG devices than a GPU can have"));
    CHECK_THAT(message("1c.2g.20gb"), Catch::Contains("name a whole one, as 2g.20gb"));
}
