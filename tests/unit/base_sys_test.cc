#include "runtime/base/sys.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/catch.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

TEST_CASE("a directory is listed in order, however long, and again", "[base]") {
    fixtures::TempFolder folder;
    Fd directory = sys::open_file(folder.path(), O_RDONLY | O_DIRECTORY);
    CHECK(sys::list_directory(directory.get(), "it").empty());
    std::vector<std::string> names;
    for (int i = 0; i < 2000; ++i) names.push_back(cat("a name of some length, number ", 10'000 + i));
    for (auto name = names.rbegin(); name != names.rend(); ++name)
        REQUIRE(::mkdirat(directory.get(), name->c_str(), 0700) == 0);
    CHECK(sys::list_directory(directory.get(), "it") == names);
    CHECK(sys::list_directory(directory.get(), "it") == names);
}

TEST_CASE("a directory that was removed is empty, and a file is none", "[base]") {
    fixtures::TempFolder folder;
    REQUIRE(::mkdir((folder / "gone").c_str(), 0700) == 0);
    Fd gone = sys::open_file(folder / "gone", O_RDONLY | O_DIRECTORY);
    REQUIRE(::rmdir((folder / "gone").c_str()) == 0);
    CHECK(sys::list_directory(gone.get(), "it").empty());
    Fd file = sys::open_file(folder / "file", O_WRONLY | O_CREAT, 0600);
    CHECK_THROWS_WITH(sys::list_directory(file.get(), "the file"), Catch::Contains("listing the file"));
}
