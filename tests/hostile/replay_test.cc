// The inputs that are kept, honest ones and those that did harm once, through every parser: what the fuzzing programs
// do, without clang.
#include <filesystem>

#include "runtime/base/sys.hh"
#include "tests/catch.hh"
#include "tests/hostile/target.hh"

namespace fs = std::filesystem;
using namespace berth;

namespace {

/// Runs all files of a folder, which need not be there; how many they were.
size_t replay(const hostile::Target& target, const fs::path& folder) {
    size_t count = 0;
    if (!fs::exists(folder)) return count;
    for (const auto& file : fs::directory_iterator(folder)) {
        INFO(file.path().string());
        CHECK_NOTHROW(target.run(sys::read_file(file.path(), 1 << 20)));
        ++count;
    }
    return count;
}

}  // namespace

TEST_CASE("what fuzzing found stays harmless", "[hostile]") {
    for (const hostile::Target& target : hostile::targets()) {
        INFO(target.name);
        CHECK(replay(target, "tests/hostile/corpus/" + target.name) > 0);
        replay(target, "tests/hostile/crashes/" + target.name);
    }
    // A folder of another name would be read by nobody.
    for (const char* kind : {"tests/hostile/corpus", "tests/hostile/crashes"})
        for (const auto& folder : fs::directory_iterator(kind)) {
            INFO(folder.path().string());
            bool known = false;
            for (const hostile::Target& target : hostile::targets()) known |= folder.path().filename() == target.name;
            CHECK(known);
        }
}
