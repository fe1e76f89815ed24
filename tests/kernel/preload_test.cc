// The first program of a container is in memory when it is executed.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr size_t page = 4096;

/// What nobody has read yet, and no page of it can be told from another by its length.
std::string program_text(size_t size) {
    std::string text = "\177ELF";
    for (int number = 0; text.size() < size; ++number) text += cat(number, " ");
    text.resize(size);
    return text;
}

/// How much of a file is in the page cache: KiB in memory of KiB; then whether it reads as it should.
std::string in_memory(const std::string& path, const std::string& content) {
    Fd fd = sys::open_file(path, O_RDONLY);
    size_t size = content.size(), pages = (size + page - 1) / page, there = 0;
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
    std::vector<unsigned char> each(pages);
    if (memory == MAP_FAILED || ::mincore(memory, size, each.data()) != 0)
        throw SysError("looking at what is in memory");
    for (unsigned char one : each) there += one & 1;
    ::munmap(memory, size);
    return cat(path, " ", there * page >> 10, " of ", pages * page >> 10, slurp(path) == content ? "" : " DIFFERENT",
               "; ");
}

std::string seen_of(const std::string& program, const std::string& path_variable) {
    const std::string small = program_text(300'000), large = program_text(3 << 20), other = program_text(200'000);
    ContainerImage image = make_image([&](squash::LayerWriter& writer) {
        fill_sample(writer);
        add_file(writer, "bin/small", small, 0755);
        add_file(writer, "bin/large", large, 0755);
        add_file(writer, "bin/other", other, 0755);
        writer.add_symlink("bin/link", {}, "/bin/small");
        writer.add_symlink("sbin", {}, "bin");
    });
    plan::Plan plan = plan_for();
    plan.environment.image = {"PATH=" + path_variable};
    Outcome seen = as_user([&] {
        StartedContainer container = start_container(plan, std::move(image), {}, {}, program);
        return run_task(container, [&] {
            return in_memory("/bin/small", small) + in_memory("/bin/large", large) + in_memory("/bin/other", other);
        });
    });
    CHECK(seen.error == "");
    return seen.text;
}

}  // namespace

TEST_CASE("the first program is in memory before it is executed, however it is named", "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string small = "/bin/small 296 of 296; /bin/large 0 of 3072; /bin/other 0 of 196; ";
    CHECK(seen_of("/bin/small", "") == small);
    CHECK(seen_of("small", "/nowhere:/sbin:/bin") == small);
    CHECK(seen_of("/sbin/../bin/link", "") == small);
}

TEST_CASE("of a large first program the start is in memory", "[kernel][start]") {
    NEED_CONTAINERS();
    CHECK(seen_of("/bin/large", "") == "/bin/small 0 of 296; /bin/large 1024 of 3072; /bin/other 0 of 196; ");
}

// Its pages are being stored while the edit reads them: each of the two could wait for the other. A file whose name
// ends like a directory's is looked up, and then it is not found.
TEST_CASE("hostile: a first program that an edit reads as an account file or a loader's cache delays nothing",
          "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string large = program_text(1 << 20);
    const std::string program = GENERATE("/bin/large", "/bin/large/", "/bin/link");
    for (int turn = 0; turn < 10; ++turn) {
        ContainerImage image = make_image([&](squash::LayerWriter& writer) {
            fill_sample(writer);
            add_file(writer, "bin/large", large, 0755);
            writer.add_symlink("bin/link", {}, "large/");
            writer.add_symlink("etc/passwd", {}, "/bin/large");
            writer.add_symlink("etc/ld.so.cache", {}, "../bin/large");
        });
        plan::Plan plan = plan_for();
        plan.edits.insert(
            plan.edits.begin(),
            {plan::LoaderLibraries{{{0, "libx.so.1", "/usr/lib/libx.so.1"}}, "", "/usr/lib"}, "test", ""});
        Outcome seen = as_user([&] {
            StartedContainer container = start_container(plan, std::move(image), {}, {}, program);
            return run_task(container,
                            [] { return std::string(slurp("/etc/ld.so.cache").empty() ? "empty" : "made"); });
        });
        CHECK(seen.error == "");
        CHECK_FALSE(seen.hung);
        CHECK(seen.text == "made");
    }
}

TEST_CASE("a first program that is not there, or is no file, changes nothing", "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string nothing = "/bin/small 0 of 296; /bin/large 0 of 3072; /bin/other 0 of 196; ";
    CHECK(seen_of("/bin/missing", "") == nothing);
    CHECK(seen_of("small", "/nowhere") == nothing);
    CHECK(seen_of("/bin", "") == nothing);
    // Looked up on the way to an error.
    CHECK(seen_of("/bin/small/", "") == nothing);
    CHECK(seen_of("/bin/small/.", "") == nothing);
    CHECK(seen_of("/", "") == nothing);
    CHECK(seen_of("", "/bin") == nothing);
}
