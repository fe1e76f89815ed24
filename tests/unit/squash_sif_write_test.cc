#include <fcntl.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/format/sif.hh"
#include "runtime/squash/format/sif_write.hh"
#include "tests/catch.hh"
#include "tests/unit/squash_support.hh"

using namespace berth;
using namespace berth::squash;

namespace {

SifForm some_form() {
    return {.architecture = "arm64",
            .id = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'},
            .time = 0x0102030405,
            .definition = "bootstrap: docker\n",
            .texts = {{"a.json", "{}"}, {"b.json", "[1]"}}};
}

/// A file with `size` bytes where the partition is.
std::string written(const squash::test::TempFolder& folder, const SifForm& form, size_t size) {
    Fd file = folder.create("x.sif");
    std::string data(size, 'p');
    REQUIRE(::pwrite(file.get(), data.data(), size, static_cast<off_t>(sif_partition_start(form))) ==
            static_cast<ssize_t>(size));
    write_sif(file.get(), form, "x.sif");
    return squash::test::read_file(folder / "x.sif");
}

}  // namespace

TEST_CASE("a SIF file has its header, descriptors and objects where the format wants them", "[squash]") {
    squash::test::TempFolder folder;
    SifForm form = some_form();
    std::string file = written(folder, form, 5000);
    CHECK(file.substr(0, 64) == std::string("#!/usr/bin/env run-singularity\n\0SIF_MAGIC\0"
                                            "01\0"
                                            "04\0"
                                            "0123456789abcdef",
                                            64));
    CHECK(file.substr(64, 8) == std::string("\5\4\3\2\1\0\0\0", 8));
    constexpr size_t data = 4096 + 48 * 585;
    CHECK(file.substr(data, 18 + 2 + 3) == "bootstrap: docker\n{}[1]");
    CHECK(sif_partition_start(form) % 4096 == 0);
    CHECK(file.size() == sif_partition_start(form) + 5000);
    CHECK(file.substr(4096 + 585 + 4 + 1 + 12 + 7 * 8, 7) == std::string("a.json\0", 7));
}

TEST_CASE("the partition of a SIF file that was written is found", "[squash]") {
    squash::test::TempFolder folder;
    SifForm form = some_form();
    written(folder, form, 5000);
    Fd file = sys::open_file(folder / "x.sif", O_RDONLY);
    CHECK(is_sif(file.get()));
    Extent place = find_sif_partition(file.get(), "x.sif");
    CHECK(place.offset == sif_partition_start(form));
    CHECK(place.size == 5000);
    CHECK(find_sif_overlays(file.get(), "x.sif").empty());
}

TEST_CASE("a SIF file of another machine says so, and of an unknown one", "[squash]") {
    auto [name, code] = GENERATE(std::pair("386", "01"), std::pair("amd64", "02"), std::pair("ppc64le", "06"),
                                 std::pair("s390x", "11"), std::pair("riscv64", "12"), std::pair("vax", "00"));
    CAPTURE(name);
    squash::test::TempFolder folder;
    SifForm form = some_form();
    form.architecture = name;
    CHECK(written(folder, form, 1).substr(45, 3) == std::string(code) + '\0');
}
