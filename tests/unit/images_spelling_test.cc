#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "runtime/base/fd.hh"
#include "runtime/images/spelling.hh"
#include "tests/catch.hh"

using namespace berth;

namespace {

std::string kind_of_file(const std::string& content) {
    char name[] = "/tmp/berth-spelling-XXXXXX";
    Fd file(::mkostemp(name, O_CLOEXEC));
    REQUIRE(file);
    ::unlink(name);
    REQUIRE(::write(file.get(), content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    return archive_kind(file.get());
}

}  // namespace

TEST_CASE("spelling: a packed archive is told by its first bytes", "[images]") {
    CHECK(kind_of_file(std::string("\x1f\x8b\x08\0rest", 8)) == "packed");
    CHECK(kind_of_file("\x28\xb5\x2f\xfdrest") == "packed");
    // As pzstd and tools for seekable archives write them: a skippable frame comes first.
    CHECK(kind_of_file(std::string("\x50\x2a\x4d\x18\x04\0\0\0size\x28\xb5\x2f\xfd", 16)) == "packed");
    CHECK(kind_of_file("\x5f\x2a\x4d\x18rest") == "packed");
    CHECK(kind_of_file("a text file\n") == "");
    CHECK(kind_of_file("abc") == "");
}
