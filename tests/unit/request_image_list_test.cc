#include "runtime/request/image_list.hh"

#include "tests/catch.hh"

using berth::plan::ImageList;
using berth::plan::parse_image_list;

TEST_CASE("a list of images has one reference a line, and comments", "[request]") {
    ImageList list = parse_image_list(
        "# images of the site\n"
        "\n"
        "ubuntu:24.04\n"
        "  nvcr.io#nvidia/pytorch:24.05-py3\t # the # separates the registry\r\n"
        "ubuntu:24.04   # again\n"
        "r.io/a@sha256:" + std::string(64, 'a'),
        "list");
    CHECK(list.mistakes.empty());
    REQUIRE(list.lines.size() == 3);
    CHECK(list.lines[0].number == 3);
    CHECK(list.lines[0].reference.text() == "registry-1.docker.io/library/ubuntu:24.04");
    CHECK(list.lines[1].number == 4);
    CHECK(list.lines[1].text == "nvcr.io#nvidia/pytorch:24.05-py3");
    CHECK(list.lines[1].reference.registry == "nvcr.io");
    CHECK(list.lines[2].reference.digest);
    CHECK(parse_image_list("", "list").lines.empty());
}

TEST_CASE("a line that is no image of a registry is a mistake with its place, and the others count", "[request]") {
    ImageList list = parse_image_list("a b\nubuntu\n./file.sqsh\ndockerd://x\n\x1b[2J\n", "/etc/li\nst");
    REQUIRE(list.lines.size() == 1);
    CHECK(list.lines[0].number == 2);
    REQUIRE(list.mistakes.size() == 4);
    CHECK_THAT(list.mistakes[0], Catch::StartsWith("/etc/li\\x0ast:1: a b: "));
    CHECK_THAT(list.mistakes[1], Catch::EndsWith(":3: ./file.sqsh: it is no image of a registry"));
    CHECK_THAT(list.mistakes[2], Catch::EndsWith(":4: dockerd://x: it is no image of a registry"));
    for (const std::string& line : list.mistakes) CHECK(line.find_first_of("\n\x1b") == line.npos);
}
