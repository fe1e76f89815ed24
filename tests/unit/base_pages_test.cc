#include <sys/mman.h>

#include <string>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/pages.hh"
#include "runtime/base/sys.hh"
#include "tests/catch.hh"

using namespace berth;

TEST_CASE("pages: the kernel takes a string of the longest size, and none that is longer", "[runtime]") {
    auto code = [](size_t size) {
        std::string text(size - 1, 'x');
        text[1] = '=';
        const std::vector<std::string> environment = {text};
        return Child("/bin/true", {}, -1, -1, &environment).wait();
    };
    CHECK(code(longest_string()) == 0);
    CHECK_THROWS_AS(code(longest_string() + 1), SysError);
}

TEST_CASE("pages: memory that is made present is in whole pages of this machine", "[runtime]") {
    const size_t size = 8 * page_size();
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    // Where the kernel lacks the call, nothing is present, which is no error.
    bool known = ::madvise(memory, page_size(), MADV_POPULATE_WRITE) == 0;
    auto present = [&] {
        unsigned char pages[8] = {};
        REQUIRE(::mincore(memory, size, pages) == 0);
        unsigned out = 0;
        for (unsigned char page : pages) out += page & 1;
        return out;
    };
    // From within the second page to within the last one: the pages between them are whole.
    sys::make_present({static_cast<char*>(memory) + page_size() + 1, 6 * page_size()});
    CHECK(present() == (known ? 6 : 0));
    ::munmap(memory, size);
}
