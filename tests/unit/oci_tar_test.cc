#include <random>

#include "runtime/base/error.hh"
#include "runtime/oci/layer/tar.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/fixtures/tar_recorder.hh"

using namespace berth;
using namespace berth::oci;
using fixtures::gnu_magic;
using fixtures::old_sparse_block;
using fixtures::parsed;
using fixtures::raw;
using fixtures::Seen;
using fixtures::TarBuilder;
using fixtures::TarItem;
using Type = TarEntry::Type;

TEST_CASE("tar: plain entries of every type", "[tar]") {
    TarBuilder tar;
    tar.item({.name = "a", .content = "hello", .mode = 04755, .uid = 7, .gid = 8, .mtime = 99})
        .directory("d/")
        .symlink("s", "../t")
        .hardlink("h", "a");
    tar.item({.name = "p", .type = '6'})
        .item({.name = "c", .type = '3'})
        .item({.name = "b", .type = '4'})
        .item({.name = "k", .type = '7', .content = "x"});
    tar.item({.name = "v7dir/", .type = '\0', .magic = std::string(8, '\0')})
        .item({.name = "v7", .type = '\0', .content = "y", .magic = std::string(8, '\0')});
    tar.item({.name = "name", .prefix = "some/prefix"})
        .item({.name = "gnu", .magic = gnu_magic, .prefix = "12345670123"});
    for (size_t step : {size_t{1}, size_t{7}, size_t{511}, size_t{512}, size_t{513}, std::string::npos}) {
        auto seen = parsed(tar.finished(), step);
        REQUIRE(seen.size() == 12);
        CHECK(seen[0].content == "hello");
        CHECK(seen[0].entry.mode == 04755);
        CHECK(seen[0].entry.uid == 7);
        CHECK(seen[0].entry.gid == 8);
        CHECK(seen[0].entry.mtime == 99);
        CHECK(seen[1].entry.type == Type::directory);
        CHECK(seen[2].entry.link == "../t");
        CHECK(seen[3].entry.type == Type::hardlink);
        CHECK(seen[4].entry.type == Type::fifo);
        CHECK(seen[5].entry.type == Type::character);
        CHECK(seen[6].entry.type == Type::block);
        CHECK(seen[7].content == "x");
        CHECK(seen[8].entry.type == Type::directory);
        CHECK(seen[9].content == "y");
        CHECK(seen[10].entry.name == "some/prefix/name");
        CHECK(seen[11].entry.name == "gnu");
    }
}

TEST_CASE("tar: long names by PAX and GNU, byte-exact", "[tar]") {
    std::string name = std::string(300, 'n') + "\xff\xfe", link = std::string(200, 'l');
    TarBuilder tar;
    tar.pax({{"path", name}, {"linkpath", link}, {"mtime", "-1.5"}, {"uid", "3000000"}, {"gid", "4294967295"}})
        .symlink("short", "short");
    tar.gnu_long('L', name).gnu_long('K', link).symlink("short", "short").file("after", "");
    auto seen = parsed(tar.finished(), 100);
    REQUIRE(seen.size() == 3);
    CHECK((seen[0].entry.name == name));
    CHECK(seen[0].entry.link == link);
    CHECK(seen[0].entry.mtime == -2);
    CHECK(seen[0].entry.uid == 3000000);
    CHECK(seen[0].entry.gid == 4294967295);
    CHECK((seen[1].entry.name == name));
    CHECK(seen[1].entry.link == link);
    CHECK(seen[2].entry.name == "after");
    CHECK(seen[2].entry.uid == 0);
}

TEST_CASE("tar: a prefix in GNU's headers, as Go before 1.8 wrote it, is no pair of times", "[tar]") {
    const std::string gnu("ustar  \0", 8);
    auto name = [&](const std::string& prefix, char type = '0') {
        fixtures::TarItem item{.name = "name", .type = type, .magic = gnu, .prefix = prefix};
        return parsed(TarBuilder().item(item).finished())[0].entry.name;
    };
    CHECK(name("usr/share/long") == "usr/share/long/name");
    CHECK(name("a") == "a/name");
    CHECK(name("usr/lib", '5') == "usr/lib/name");
    // What GNU tar writes there with --atime-preserve or --incremental.
    CHECK(name(std::string("13712345670\0" "13712345671\0", 24)) == "name");
    CHECK(name(std::string("13712345670\0", 12)) == "name");
    CHECK(name(std::string("\x80\0\0\0\0\0\0\0\0\0\0\x01", 12)) == "name");
    // A folder that is a number cannot be told from a time.
    CHECK(name("2016") == "name");
    CHECK(name("caf\xc3\xa9") == "name");
    CHECK(name("") == "name");
    std::string star("ustar\0" "00", 8);
    CHECK(parsed(TarBuilder().item({.name = "name", .magic = star, .prefix = "2016"}).finished())[0].entry.name ==
          "2016/name");
}

TEST_CASE("tar: global PAX records last, local ones do not", "[tar]") {
    TarBuilder tar;
    tar.pax({{"uid", "5"}, {"comment", "x"}, {"SCHILY.xattr.user.g", "1"}}, 'g').file("a", "");
    tar.pax({{"uid", "6"}, {"SCHILY.xattr.user.a", std::string("\0=\n", 3)}}).file("b", "").file("c", "");
    auto seen = parsed(tar.finished());
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].entry.uid == 5);
    CHECK(seen[0].entry.xattrs.empty());
    CHECK(seen[1].entry.uid == 6);
    CHECK((seen[1].entry.xattrs == std::map<std::string, std::string>{{"user.a", std::string("\0=\n", 3)}}));
    CHECK(seen[2].entry.uid == 5);
    for (const char* key : {"path", "linkpath", "size", "GNU.sparse.major"})
        CHECK_THROWS_WITH(parsed(TarBuilder().pax({{key, "1"}}, 'g').file("a", "").finished()),
                          Catch::Contains("global PAX header"));
}

TEST_CASE("tar: binary numbers", "[tar]") {
    TarBuilder tar;
    tar.item({.name = "a", .uid = 1ULL << 31, .gid = 1ULL << 40, .mtime = -1})
        .item({.name = "b", .uid = static_cast<uint64_t>(-2), .mtime = 1LL << 40});
    tar.item({.name = "c", .content = "xyz", .size_field = std::string("\x80\0\0\0\0\0\0\0\0\0\0\x03", 12)});
    auto seen = parsed(tar.finished());
    REQUIRE(seen.size() == 3);
    CHECK(seen[0].entry.uid == 1U << 31);
    CHECK(seen[0].entry.gid == 65534);
    CHECK(seen[0].entry.mtime == -1);
    CHECK(seen[1].entry.uid == 65534);
    CHECK(seen[1].entry.mtime == 1LL << 40);
    CHECK(seen[2].content == "xyz");
}

TEST_CASE("tar: a PAX size counts where the header leaves it open", "[tar]") {
    auto with = [](const std::string& size_field) {
        TarBuilder tar;
        tar.pax({{"size", "3"}}).item({.name = "a", .size_field = size_field}).data("abc");
        return tar.file("b", "").finished();
    };
    for (const std::string& field : {raw(0), std::string("777777777777"), std::string("77777777777\0", 12), raw(3)}) {
        auto seen = parsed(with(field));
        REQUIRE(seen.size() == 2);
        CHECK(seen[0].content == "abc");
    }
}

TEST_CASE("hostile row 13: absurd, negative and contradicting sizes are refused", "[tar][hostile]") {
    auto size = [](const std::string& field) {
        return TarBuilder().item({.name = "a", .size_field = field}).finished();
    };
    CHECK_THROWS_AS(parsed(size(raw(INT64_MAX))), Error);
    CHECK_THROWS_AS(parsed(size(raw(static_cast<uint64_t>(-512)))), Error);
    CHECK_THROWS_AS(parsed(size(std::string("\x80\x01\0\0\0\0\0\0\0\0\0\0", 12))), Error);
    CHECK_THROWS_AS(parsed(size(std::string("\x80\0\0\0\xff\0\0\0\0\0\0\0", 12))), Error);
    CHECK_THROWS_AS(parsed(size("0000000012x")), Error);
    CHECK_THROWS_AS(parsed(size("-0000000001")), Error);
    auto pax = [](const std::string& text) {
        return TarBuilder().pax({{"size", text}}).item({.name = "a", .content = "12345"}).finished();
    };
    CHECK_THROWS_WITH(parsed(pax("600")), "the tar entry a: its header says 5 bytes and its PAX record 600");
    CHECK_THROWS_AS(parsed(pax("9223372036854775807")), Error);
    CHECK_THROWS_AS(parsed(pax("99999999999999999999999")), Error);
    CHECK_THROWS_AS(parsed(pax("-5")), Error);
    CHECK_THROWS_AS(parsed(pax("0x5")), Error);
    CHECK_THROWS_AS(parsed(pax(" 5")), Error);
    CHECK(parsed(pax("5"))[0].content == "12345");
    CHECK(parsed(pax(""))[0].content == "12345");
}

TEST_CASE("hostile row 16: oversized PAX headers, NUL bytes in names and malformed records are refused",
          "[tar][hostile]") {
    TarBuilder big;
    big.item({.name = "pax", .type = 'x', .size_field = raw((1 << 20) + 1)});
    CHECK_THROWS_WITH(parsed(big.finished()), Catch::Contains("the limit is 1048576"));
    TarBuilder long_name;
    long_name.item({.name = "l", .type = 'L', .size_field = raw(1ULL << 40)});
    CHECK_THROWS_AS(parsed(long_name.finished()), Error);
    CHECK_THROWS_WITH(parsed(TarBuilder().pax({{"path", std::string("a\0b", 3)}}).file("a", "").finished()),
                      Catch::Contains("NUL"));
    CHECK_THROWS_WITH(parsed(TarBuilder().pax({{"linkpath", std::string("a\0b", 3)}}).symlink("a", "b").finished()),
                      Catch::Contains("NUL"));
    CHECK_THROWS_WITH(parsed(TarBuilder().gnu_long('L', std::string("a\0b", 3)).file("a", "").finished()),
                      Catch::Contains("NUL"));
    for (const char* records : {"5 a=b", "99 a=b\n", "0 a=b\n", "6 ab\n\n", "x a=b\n", "6 a=bc", "-6 a=b\n", "2 \n",
                                "6 =bc\n", "\n", "18446744073709551615 a=b\n"})
        CHECK_THROWS_WITH(
            parsed(TarBuilder().item({.name = "p", .type = 'x', .content = records}).file("a", "").finished()),
            Catch::Contains("malformed record"));
}

TEST_CASE("tar: damaged and truncated archives are refused", "[tar]") {
    std::string good = TarBuilder().pax({{"uid", "6"}}).file("name", std::string(700, 'x')).finished();
    CHECK(parsed(good).size() == 1);
    CHECK(parsed(good.substr(0, good.size() - 512)).size() == 1);
    CHECK(parsed(good.substr(0, good.size() - 1024)).size() == 1);
    CHECK(parsed(good + "anything may follow").size() == 1);
    CHECK(parsed("").empty());
    size_t end_of_bytes = 3 * 512 + 700;
    for (size_t cut = 1; cut < end_of_bytes; cut += 13)
        CHECK_THROWS_WITH(parsed(good.substr(0, cut)), Catch::Contains("cut off"));
    for (size_t cut : {end_of_bytes, end_of_bytes + 1, good.size() - 1025})
        CHECK(parsed(good.substr(0, cut)).size() == 1);
    CHECK_THROWS_WITH(parsed(good.substr(0, 1024)), Catch::Contains("cut off"));
    CHECK_THROWS_AS(parsed(good.substr(0, 1024) + std::string(1024, '\0')), Error);
    for (size_t flip : {0, 100, 150, 300, 511}) {
        std::string bad = good;
        bad[flip] = static_cast<char>(bad[flip] ^ 0x15);
        CHECK_THROWS_AS(parsed(bad), Error);
    }
    std::string stopped =
        TarBuilder().file("a", "").bytes() + std::string(512, '\0') + TarBuilder().file("b", "").finished();
    CHECK_THROWS_WITH(parsed(stopped), Catch::Contains("goes on after a zero block"));
    for (char type : {'V', 'M', 'D', 'X', 'A', '9', ' '})
        CHECK_THROWS_WITH(parsed(TarBuilder().item({.name = "a", .type = type}).finished()),
                          Catch::Contains("is not supported"));
}

TEST_CASE("tar: signed checksums are accepted", "[tar]") {
    std::string bytes = TarBuilder().item({.name = "\xe9t\xe9"}).finished();
    int sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<signed char>(bytes[i]);
    TarBuilder::put(bytes, 148, 8, TarBuilder::octal(static_cast<uint64_t>(sum), 6) + std::string("\0 ", 2));
    CHECK(parsed(bytes)[0].entry.name == "\xe9t\xe9");
}

TEST_CASE("tar: archives of GNU tar in each of its formats", "[tar]") {
    fixtures::TempFolder folder;
    std::string name = "d/" + std::string(120, 'n');
    auto made = fixtures::run_command(
        "cd '" + folder.path() + "' && mkdir d && printf hello > '" + name + "' && ln '" + name +
        "' d/hard && truncate -s 8G d/sparse && printf end >> d/sparse && mkfifo d/fifo && ln -s hard d/soft");
    REQUIRE(made.status == 0);
    for (const char* format : {"v7", "oldgnu", "gnu", "ustar", "posix --sparse-version=0.0",
                               "posix --sparse-version=0.1", "posix --sparse-version=1.0"}) {
        bool has_sparse = format[0] != 'v' && format[0] != 'u';
        // V7 has neither FIFOs nor names that long.
        std::string names = has_sparse ? "d" : format[0] == 'u' ? "d/hard d/fifo d/soft" : "d/hard d/soft";
        auto tar = fixtures::run_command("cd '" + folder.path() + "' && tar --sort=name -c" + (has_sparse ? "S" : "") +
                                         " --format=" + format + " " + names);
        REQUIRE(tar.status == 0);
        std::map<std::string, Seen> by_name;
        for (Seen& seen : parsed(tar.output, 10240)) by_name[seen.entry.name] = seen;
        INFO(format);
        CHECK(by_name.at("d/soft").entry.link == "hard");
        if (format[0] != 'v') CHECK(by_name.at("d/fifo").entry.type == Type::fifo);
        CHECK(by_name.at("d/hard").content == "hello");
        if (!has_sparse) continue;
        CHECK(by_name.at("d/").entry.type == Type::directory);
        CHECK(by_name.at(name).entry.type == Type::hardlink);
        CHECK(by_name.at("d/sparse").entry.size == (8ULL << 30) + 3);
        CHECK_THAT(by_name.at("d/sparse").content, Catch::EndsWith("end"));
    }
}

TEST_CASE("tar: random damage never does worse than an Error", "[tar]") {
    std::string good = TarBuilder()
                           .pax({{"path", "long"}, {"GNU.sparse.major", "1"}, {"GNU.sparse.realsize", "100"}})
                           .file("x", std::string("1\n10\n5\n", 7) + std::string(505, '\0') + "abcde")
                           .raw_header(old_sparse_block({{1000, 3}, {3003, 2}}, 5, 3100, true))
                           .data("")
                           .data(std::string(512, '\0'))
                           .data("abcde")
                           .gnu_long('L', "name")
                           .symlink("a", "b")
                           .finished();
    std::mt19937 random(7);
    for (int round = 0; round < 20000; ++round) {
        std::string bad = good;
        size_t at = random() % bad.size(), block = at / 512 * 512;
        bad[at] = static_cast<char>(random());
        // With a checksum made right again the damage gets further in.
        unsigned sum = 0;
        for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(bad[block + i]);
        if (round % 2 == 0 && bad.substr(block + 257, 5) == "ustar")
            TarBuilder::put(bad, block + 148, 7, TarBuilder::octal(sum, 6) + '\0');
        try {
            parsed(bad, 700);
        } catch (const Error&) {
        }
    }
}
