#include "runtime/base/error.hh"
#include "runtime/base/json_text.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("text: what comes from outside is made printable", "[base][text]") {
    CHECK(printable("plain \xc3\xa9") == "plain \xc3\xa9");
    CHECK(printable("\x1b[31mred\n") == "\\x1b[31mred\\x0a");
    CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");  // CSI as a C1 control
    CHECK(printable("\xff\xfe") == "\\xff\\xfe");
    CHECK(printable(std::string("a\0b", 3)) == "a\\x00b");
    CHECK(printable(std::string(300, 'x')) == std::string(256, 'x') + "...");
    CHECK(printable("\xe2\x82") == "\\xe2\\x82");  // cut off sequence
}

TEST_CASE("text: what decoders refuse as UTF-8 is not passed on as such", "[base][text]") {
    // Longer forms of "/" and of a line end, halves of a UTF-16 pair, and what is beyond U+10FFFF.
    CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
    CHECK(printable("\xe0\x80\x8a") == "\\xe0\\x80\\x8a");
    CHECK(printable("\xe0\x9f\xbf") == "\\xe0\\x9f\\xbf");
    CHECK(printable("\xf0\x80\x80\xaf") == "\\xf0\\x80\\x80\\xaf");
    CHECK(printable("\xf0\x8f\xbf\xbf") == "\\xf0\\x8f\\xbf\\xbf");
    CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
    CHECK(printable("\xed\xbf\xbf") == "\\xed\\xbf\\xbf");
    CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
    CHECK(json_text("\xed\xa0\x80") == R"("\\xed\\xa0\\x80")");
    // Their neighbours are characters.
    for (const char* good : {"\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        CHECK(printable(good) == good);
}

TEST_CASE("text: the caret stands under the mistake, also after escaped characters", "[base][text]") {
    CHECK(with_caret("wrong", "abc", 1) == "wrong\n  abc\n   ^");
    CHECK(with_caret("wrong", "\nb", 1) == "wrong\n  \\x0ab\n      ^");
    CHECK(with_caret("wrong", "ab", 99) == "wrong\n  ab\n    ^");
}

TEST_CASE("text: numbers, sizes, splitting", "[base][text]") {
    uint64_t number = 7;
    CHECK(parse_number("42", 100, number));
    CHECK(number == 42);
    for (const char* bad : {"", "-1", "+1", "4x", " 4", "101", "99999999999999999999999"})
        CHECK_FALSE(parse_number(bad, 100, number));
    CHECK(number == 42);
    CHECK(human_bytes(0) == "0 B");
    CHECK(human_bytes(999) == "999 B");
    CHECK(human_bytes(1500) == "1.5 kB");
    CHECK(human_bytes(2'060'000'000) == "2.1 GB");
    CHECK(split("a,,b", ',') == std::vector<std::string>{"a", "", "b"});
    CHECK(split("", ',') == std::vector<std::string>{""});
    CHECK(trimmed(" \t x y \n") == "x y");
    CHECK(lower("AbC") == "abc");
}

TEST_CASE("errors: a system call's error has its reason in words and keeps its number", "[base][text]") {
    errno = ENOENT;
    SysError error("opening /x");
    CHECK(std::string(error.what()) == "opening /x: No such file or directory");
    CHECK(error.number() == ENOENT);
    CHECK(error.exit_code() == exit_failure);
    CHECK(SysError("writing /y", ENOSPC).number() == ENOSPC);
}
