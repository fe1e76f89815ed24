// Squashfs files of others, as our server shows them and as squashfuse does: the same names, attributes and bytes.
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "runtime/base/text.hh"
#include "runtime/images/file.hh"
#include "tests/fixtures/random_bytes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

std::string lister() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "list_tree"; }

std::string words(size_t size) {
    std::string out;
    for (unsigned i = 0; out.size() < size; ++i) out += cat("word ", i * i % 977, " ");
    out.resize(size);
    return out;
}

/// A tree with what makes formats differ: tails, holes, links, many names, attributes.
void fill(const Folder& folder) {
    for (const char* name : {"tree", "tree/usr", "tree/usr/bin", "tree/many", "tree/empty"}) folder.directory(name);
    unsigned seed = 0;
    for (size_t size : {0, 1, 4095, 4096, 131071, 131072, 131073, 400000}) {
        folder.file(cat("tree/words", size), words(size));
        folder.file(cat("tree/noise", size), fixtures::random_bytes(size, ++seed));
    }
    for (unsigned i = 0; i < 700; ++i) folder.file(cat("tree/many/file", i), words(i % 90));
    folder.file("tree/usr/bin/program", "\177ELF" + words(200000));
    folder.file("tree/sparse", words(1000));
    const std::string root = folder / "tree/";
    REQUIRE(::truncate((root + "sparse").c_str(), 900000) == 0);
    REQUIRE(::chmod((root + "usr/bin/program").c_str(), 0755) == 0);
    REQUIRE(::chmod((root + "words4096").c_str(), 0600) == 0);
    REQUIRE(::symlink("../words1", (root + "usr/link").c_str()) == 0);
    REQUIRE(::symlink(std::string(3000, 'x').c_str(), (root + "usr/long").c_str()) == 0);
    REQUIRE(::link((root + "noise400000").c_str(), (root + "usr/hard").c_str()) == 0);
    REQUIRE(::mkfifo((root + "usr/pipe").c_str(), 0640) == 0);
    REQUIRE(::setxattr((root + "words1").c_str(), "user.colour", "blue", 4, 0) == 0);
}

/// Lines without owners, which ours are the caller's, and without the root, which has a mount point more.
std::set<std::string> comparable(const std::string& listing) {
    std::set<std::string> out;
    for (const std::string& line : split(listing, '\n')) {
        std::vector<std::string> fields = split(line, '\t');
        if (fields.size() < 9 || fields[0] == ".") continue;
        fields[3] = fields[4] = "";
        std::string kept;
        for (const std::string& field : fields) kept += field + "\t";
        out.insert(kept);
    }
    return out;
}

}  // namespace

TEST_CASE("squashfs files of mksquashfs are to us what they are to squashfuse", "[kernel][start]") {
    NEED_CONTAINERS();
    Folder folder;
    fill(folder);
    for (const char* format : {"gzip", "zstd", "lz4", "xz", "lzo", "zstd -b 4096", "gzip -b 1048576",
                               "zstd -no-fragments", "lz4 -noI -noD -noF"}) {
        INFO(format);
        const std::string file = folder / "image.sqsh", place = folder / "place";
        std::filesystem::create_directories(place);
        const std::string mounted =
            cat("rm -f ", file, "; mksquashfs ", folder / "tree", " ", file, " -noappend -quiet -no-progress -comp ",
                format, " > /dev/null && squashfuse_ll ", file, " ", place, " && ", lister(), " ", place, "; umount ",
                place);
        Outcome theirs = as_user(
            [&] {
                return output_of({"/usr/bin/unshare", "-Urm", "/bin/sh", "-c", mounted});
            },
            std::chrono::seconds(60));
        REQUIRE(theirs.error == "");
        Outcome ours = as_user([&] {
            plan::Plan plan = bare_plan();
            plan.edits = {bind_of(lister(), "/lister", true)};
            StartedContainer container = start_container(plan, open_image_file(file), {});
            return run_task(container, [] { return output_of({"/lister", "/"}); });
        });
        REQUIRE(ours.error == "");
        std::set<std::string> expected = comparable(theirs.text), seen = comparable(ours.text);
        CHECK(expected.size() == 726);
        for (const std::string& line : expected)
            if (!seen.contains(line)) FAIL_CHECK("squashfuse alone has: " << line);
        for (const std::string& line : seen)
            if (!expected.contains(line)) FAIL_CHECK("only we have: " << line);
    }
}
