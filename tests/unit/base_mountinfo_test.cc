#include "runtime/base/mountinfo.hh"

#include "tests/catch.hh"

using namespace berth;

TEST_CASE("mountinfo: place, type and source of a mount, whatever tags it has", "[mountinfo]") {
    auto lines = parse_mountinfo(
        "36 35 98:0 /mnt1 / rw,noatime shared:1 master:2 - overlay berth-1 rw,lowerdir=a\n"
        "37 36 0:30 / /mnt\\040b rw - tmpfs \\134040 rw\n"
        "cut off - tmpfs x\n38 36 0:31 / /x rw shared:1\n39 36 0:31 / /x rw - tmpfs\n40 36 0:1 / /y rw - proc - rw\n");
    REQUIRE(lines.size() == 3);
    CHECK((lines[0].id == "36" && lines[0].place == "/" && lines[0].type == "overlay" && lines[0].source == "berth-1"));
    CHECK((lines[1].place == "/mnt b" && lines[1].source == "\\040"));
    CHECK((lines[2].type == "proc" && lines[2].source == "-"));
}

TEST_CASE("mountinfo: only a backslash and three octal digits stand for a byte", "[mountinfo]") {
    CHECK(unescaped_field("a\\011b\\12\\089\\") == "a\tb\\12\\089\\");
    CHECK(unescaped_field("\\377") == "\xff");
    CHECK(unescaped_field("").empty());
}
