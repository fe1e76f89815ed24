#include "runtime/plan/records.hh"

#include "tests/catch.hh"

using namespace berth::plan;

TEST_CASE("records are taken as they were added, whatever bytes their values hold", "[plan]") {
    std::string text;
    for (std::string_view value : {std::string_view(), std::string_view("a\nb 3\n\0c", 8)})
        add_record(text, "key", value);
    CHECK(text == std::string("key 0\n\nkey 8\na\nb 3\n\0c\n", 22));
    std::string_view rest = text;
    auto first = take_record(rest, 8), second = take_record(rest, 8);
    REQUIRE((first && second));
    CHECK(first->key == "key");
    CHECK(first->value.empty());
    CHECK(second->value == std::string_view("a\nb 3\n\0c", 8));
    CHECK(rest.empty());
    CHECK_FALSE(take_record(rest, 8));
}

TEST_CASE("what is no record is left as it is", "[plan]") {
    for (std::string_view text :
         {"key", "key\n", "key 1\n", "key 1\na", "key 1\nab", "key 2\na\n", "key x\na\n", "key -1\na\n", "key\n1 \na\n",
          "key 9\n123456789\n", "key 18446744073709551615\na\n", " \n\n"}) {
        INFO(text);
        std::string_view rest = text;
        CHECK_FALSE(take_record(rest, 8));
        CHECK(rest == text);
    }
}
