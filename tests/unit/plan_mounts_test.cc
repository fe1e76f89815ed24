#include <catch2/catch.hpp>

#include "runtime/base/error.hh"
#include "runtime/plan/mounts.hh"

using namespace berth;
using berth::plan::MountRequest;
using berth::plan::parse_mounts;

namespace {

/// The message of the error that parsing `text` gives; empty when there is none.
std::string refusal(const std::string& text) {
    try {
        parse_mounts(text);
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// Column of the caret in a message of three lines.
size_t caret(const std::string& message) { return message.substr(message.rfind('\n') + 3).find('^'); }

}  // namespace

TEST_CASE("mounts: source, target and flags", "[plan]") {
    auto mounts = parse_mounts("/a:/b:ro+noexec,/c,./d:/e,tmpfs:/scratch,umount:/opt");
    REQUIRE(mounts.size() == 5);
    CHECK(mounts[0].source == "/a");
    CHECK(mounts[0].target == "/b");
    CHECK(mounts[0].read_only);
    CHECK(mounts[0].no_exec);
    CHECK(mounts[1].source == "/c");
    CHECK(mounts[1].target.empty());
    CHECK_FALSE(mounts[1].read_only);
    CHECK(mounts[2].source == "./d");
    CHECK(mounts[3].kind == MountRequest::Kind::tmpfs);
    CHECK(mounts[3].target == "/scratch");
    CHECK(mounts[4].kind == MountRequest::Kind::umount);
}

TEST_CASE("mounts: targets are normalised and an empty one means the source", "[plan]") {
    CHECK(parse_mounts("/a:/b//c/../d/.")[0].target == "/b/d");
    CHECK(parse_mounts("/a::ro")[0].target.empty());
    CHECK(parse_mounts("/a::ro")[0].read_only);
    CHECK(parse_mounts("/a:/b:bind")[0].recursive == false);
}

TEST_CASE("hostile row 55: mounts: odd characters in a source are literal", "[plan]") {
    CHECK(parse_mounts("/a b:/c")[0].source == "/a b");
    CHECK(parse_mounts("/a\\:b\\,c\\\\d:/e")[0].source == "/a:b,c\\d");
    CHECK(parse_mounts("/a\nb:/c")[0].source == "/a\nb");
    CHECK(parse_mounts("/$(touch x);`id`&|:/c")[0].source == "/$(touch x);`id`&|");
    CHECK(parse_mounts("/a\\x:/c")[0].source == "/a\\x");
}

TEST_CASE("mounts: mistakes have a caret below them", "[plan]") {
    CHECK(caret(refusal("/a:/b,data:/c")) == 6);
    CHECK(refusal("data:/c").find("./data") != std::string::npos);
    CHECK(caret(refusal("/a:b")) == 3);
    CHECK(caret(refusal("/a:/b:ro+wrong")) == 9);
    CHECK(caret(refusal("/a:/b:ro:x")) == 8);
    CHECK(caret(refusal("/a,,/b")) == 3);
    CHECK_FALSE(refusal("").empty());
    CHECK_FALSE(refusal("tmpfs").empty());
    CHECK_FALSE(refusal(std::string("/a\0b:/c", 7)).empty());
    CHECK_FALSE(refusal("/a:/" + std::string(5000, 'x')).empty());
}

TEST_CASE("hostile row 54: mounts: targets that would hide what must be there are refused", "[plan]") {
    for (const char* target : {"/", "//", "/x/..", "/proc", "/proc/", "/proc/self", "/sys", "/dev", "/./dev/"}) {
        INFO(target);
        CHECK_FALSE(refusal(std::string("/a:") + target).empty());
    }
    for (const char* target : {"/process", "/dev/shm/x", "/system", "/devices"}) {
        INFO(target);
        CHECK(refusal(std::string("/a:") + target).empty());
    }
}
