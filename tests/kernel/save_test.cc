// Saving containers: what the file holds, beside what the container showed; kills; what runs meanwhile.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>

#include "runtime/base/sys.hh"
#include "runtime/container/named/save.hh"
#include "runtime/request/reference.hh"
#include "tests/fixtures/squash_tools.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

/// Everything below `path` that an image can hold, one line an object. In the container's own words.
std::string tree_of(const std::string& path) {
    std::vector<std::string> lines;
    auto options = std::filesystem::directory_options::none;
    for (auto entry = std::filesystem::recursive_directory_iterator(path, options);
         entry != std::filesystem::recursive_directory_iterator(); ++entry) {
        struct stat st {};
        std::string name = entry->path();
        if (lstat(name.c_str(), &st) != 0) throw SysError("looking at " + name);
        std::string more = S_ISLNK(st.st_mode) ? std::filesystem::read_symlink(name).string()
                           : S_ISREG(st.st_mode) && st.st_size < 1000 && access(name.c_str(), R_OK) == 0 ? slurp(name)
                                                                                                         : "";
        char value[64] = "";
        if (S_ISREG(st.st_mode)) getxattr(name.c_str(), "user.mine", value, sizeof value - 1);
        lines.push_back(cat(name, " ", st.st_mode, " ", S_ISDIR(st.st_mode) ? 0 : st.st_nlink, " ",
                            S_ISDIR(st.st_mode) ? 0 : st.st_size, " ", st.st_mtime, " ", more, " ", value));
    }
    std::sort(lines.begin(), lines.end());
    std::string out;
    for (const std::string& line : lines) out += line + "\n";
    return out;
}

/// Changes of every kind below /made, which the image has.
std::string change_everything() {
    std::string text = in_order(
        {write_to("/made/changed", "new"), verdict(unlink("/made/gone")), verdict(unlink("/made/folder/below")),
         verdict(rmdir("/made/folder")), verdict(mkdir("/made/folder", 0751)), write_to("/made/folder/new", "new"),
         verdict(symlink("/etc/shadow", "/made/link")), verdict(mkfifo("/made/pipe", 0640)),
         verdict(link("/made/changed", "/made/second")), write_to("/made/secret", "secret"),
         verdict(chmod("/made/secret", 0)), verdict(chmod("/made/kept", 04711)), verdict(unlink("/made/file")),
         verdict(mkdir("/made/file", 0755)), verdict(unlink("/made/replaced/a")), verdict(rmdir("/made/replaced")),
         write_to("/made/replaced", "a file now"), verdict(setxattr("/made/changed", "user.mine", "mine", 4, 0)),
         write_to("/made/.odd\xff", "odd")});
    Fd sparse = sys::open_file("/made/sparse", O_WRONLY | O_CREAT, 0644);
    return text + " " + verdict(::pwrite(sparse.get(), "end", 3, 40 << 20));
}

void fill_made(squash::LayerWriter& writer) {
    for (const char* path :
         {"made/changed", "made/gone", "made/folder/below", "made/kept", "made/file", "made/replaced/a"})
        add_file(writer, path, "of the image");
    add_file(writer, "made/pair", "of the image");
    writer.add_hardlink("made/pair2", "made/pair");
}

std::string ok(int count) {
    std::string out;
    for (int i = 0; i < count; ++i) out += i == 0 ? "ok" : " ok";
    return out;
}

size_t entries(const std::string& path) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {}));
}

}  // namespace

TEST_CASE("a saved container is what the container was", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene(fill_made);
    // A file of mode 0 that is in the image has another one else.
    scene.site.mount.modes = plan::ImageModes::image;
    bool running = GENERATE(false, true);
    CAPTURE(running);
    std::string file = scene.folder / "saved.sqsh";
    Outcome before = as_user([&] {
        UsedContainer used = scene.use("c");
        std::string changed = run_task(used.joined.container, change_everything);
        std::string tree = run_task(used.joined.container, [] { return tree_of("/made"); });
        if (changed != ok(20)) throw Error(changed);
        std::string saved;
        if (running) saved = scene.program("berth", {"save", "c", "-o", file});
        leave(std::move(used.connection));
        if (!running) saved = scene.program("berth", {"save", "c", "-o", file});
        if (saved != "|0") throw Error(saved);
        return tree;
    });
    REQUIRE(before.error == "");
    plan::Request request;
    request.image = plan::parse_reference(file);
    Outcome after = scene.outcome("saved", [] { return tree_of("/made"); }, request);
    CHECK(after.error == "");
    CHECK(after.text == before.text);
    CHECK_THAT(after.text, Catch::Contains("/made/second") && !Catch::Contains("gone"));
    CHECK(fixtures::Squashfs(file).content("made/secret") == "secret");
    CHECK_THAT(fixtures::Squashfs(file).line("made/changed"), Catch::Contains(" 0/0 "));
    // Nothing of this run's file server and mounts is in it, and its owner is nobody in particular.
    CHECK_THAT(fixtures::Squashfs(file).listing(), !Catch::Contains(".wh."));
    CHECK_THAT(scene.program("berth", {"save", "c", "-o", file}),
               Catch::Contains("it exists already") && Catch::EndsWith("|125"));
    CHECK(scene.program("berth", {"save", "c", "--force", "-o", file}) == "|0");
}

TEST_CASE("berth run --save writes a file after success and only then", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene;
    std::string file = scene.folder / "saved.sqsh";
    auto run = [&](const std::vector<std::string>& options, const std::string& word) {
        std::vector<std::string> words{"run", "--save", file};
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {scene.image, "inside", word});
        return scene.program("berth", words);
    };
    CHECK_THAT(run({}, "fail"),
               Catch::Contains("not saved as " + file + ": the command ended with 7") && Catch::EndsWith("|7"));
    CHECK_FALSE(std::filesystem::exists(file));
    CHECK_THAT(run({}, "well"), Catch::EndsWith("|0"));
    CHECK(fixtures::Squashfs(file).content("etc/hello") == "hello\n");
    // Again: what is there is replaced.
    CHECK_THAT(run({"--name", "c"}, "well"), Catch::EndsWith("|0"));
    CHECK_THAT(scene.program("berth", {"run", file, "inside", "again"}), Catch::StartsWith("inside again"));
    CHECK_THAT(scene.program("berth", {"run", "--save", "/proc/x.sqsh", scene.image, "inside"}),
               Catch::Contains("the folder cannot be written to") && Catch::EndsWith("|125"));
    // A saved container is a base like any other, and saved again.
    CHECK_THAT(scene.program("berth", {"run", "--save", scene.folder / "twice.sqsh", file, "inside"}),
               Catch::EndsWith("|0"));
    CHECK(fixtures::Squashfs(scene.folder / "twice.sqsh").content("etc/hello") == "hello\n");
}

TEST_CASE("a save that is killed leaves no file", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene;
    Outcome wrote = scene.outcome("c", [] {
        for (int i = 0; i < 40; ++i)
            if (write_to(cat("/big", i), std::string(1 << 20, static_cast<char>(i)) + slurp("/bin/inside")) != "ok")
                return std::string("failed");
        return std::string("ok");
    });
    REQUIRE(wrote.text == "ok");
    scene.folder.directory("out");
    int killed = 0;
    for (int delay = 2; delay < 160; delay += 6) {
        Beside save(scene.command("berth", {"save", "c", "--force", "-o", scene.folder / "out/saved.sqsh"}),
                    as_user_here);
        ::usleep(static_cast<useconds_t>(delay) * 1000);
        save.send(SIGKILL);
        int status = save.wait();
        killed += WIFSIGNALED(status);
        CAPTURE(delay, status);
        // All or nothing, and nothing beside it.
        size_t whole = std::filesystem::exists(scene.folder / "out/saved.sqsh");
        REQUIRE(entries(scene.folder / "out") == whole);
        if (whole) REQUIRE(fixtures::Squashfs(scene.folder / "out/saved.sqsh").content("etc/hello") == "hello\n");
        std::filesystem::remove(scene.folder / "out/saved.sqsh");
    }
    CHECK(killed > 0);
    CHECK(scene.program("berth", {"rm", "c"}) == "|0");
}

TEST_CASE("an image in another format is saved in it, with what the container wrote", "[kernel][save]") {
    NEED_CONTAINERS();
    if (fixtures::run_command("command -v mksquashfs unsquashfs").status != 0) {
        if (getenv("BERTH_MUST_RUN")) FAIL("mksquashfs is missing");
        WARN("NOT RUN, nothing was tested: mksquashfs is missing");
        return;
    }
    NamedScene scene([](squash::LayerWriter& writer) {
        add_file(writer, "large", std::string(3'000'000, 'x') + slurp(inside_program()));
    });
    std::string tree = scene.folder / "tree", gzip = scene.folder / "gzip.sqfs", saved = scene.folder / "saved.sqsh";
    fixtures::Squashfs(scene.image).extract(tree);
    REQUIRE(fixtures::run_command(
                cat("mksquashfs ", tree, " ", gzip, " -comp gzip -b 64K -no-progress -quiet && chmod 644 ", gzip))
                .status == 0);
    plan::Request request;
    request.image = plan::parse_reference(gzip);
    CHECK(scene.outcome("c", [] { return write_to("/new", std::string(300'000, 'n')); }, request).text == "ok");
    CHECK(scene.program("berth", {"save", "c", "-o", saved}) == "|0");
    CHECK_THAT(fixtures::Squashfs(saved).statistics(),
               Catch::Contains("Compression gzip") && Catch::Contains("Block size 65536"));
    CHECK(fixtures::Squashfs(saved).content("new") == std::string(300'000, 'n'));
    CHECK(fixtures::Squashfs(saved).content("large") == slurp(tree + "/large"));
}

TEST_CASE("a container is not removed while it is saved", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene;
    CHECK(scene.outcome("c", [] { return write_to("/x", "x"); }).text == "ok");
    Outcome seen = as_user([&] {
        Lock hold = scene.containers().hold("c");
        std::string text = scene.program("berth", {"rm", "c"});
        hold.unlock();
        return text + scene.program("berth", {"rm", "c"});
    });
    CHECK(seen.text == "berth: removing container c: it is being saved; try again when that is done\n|125|0");
}

TEST_CASE("a container of a root file system in a directory is saved whole", "[kernel][save]") {
    NEED_CONTAINERS();
    NamedScene scene;
    for (const char* name : {"rootfs", "rootfs/bin", "rootfs/etc"}) scene.folder.directory(name);
    scene.folder.file("rootfs/bin/inside", slurp(inside_program()));
    std::filesystem::permissions(scene.folder / "rootfs/bin/inside", std::filesystem::perms(0755));
    scene.folder.file("rootfs/etc/name", "of the directory");
    std::string file = scene.folder / "saved.sqsh";
    CHECK_THAT(scene.program("berth", {"run", "--save", file, scene.folder / "rootfs", "inside"}),
               Catch::EndsWith("|0"));
    CHECK(fixtures::Squashfs(file).content("etc/name") == "of the directory");
    CHECK_THAT(scene.program("berth", {"run", file, "inside", "it"}), Catch::StartsWith("inside it"));
}
