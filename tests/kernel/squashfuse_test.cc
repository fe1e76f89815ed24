// Containers whose files the program squashfuse_ll serves (mount.engine).
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "runtime/base/sys.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/sif_file.hh"
#include "tests/kernel/named_support.hh"
#include "tests/unit/oci_source_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using Catch::Contains;

namespace {

std::string beside_tests(const char* name) {
    return std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
}

std::string noise(size_t size) {
    std::mt19937 random(5);
    std::string out(size, '\0');
    for (char& byte : out) byte = static_cast<char>(random());
    return out;
}

struct EngineScene : NamedScene {
    using NamedScene::NamedScene;

    std::vector<std::string> words(std::vector<std::string> arguments, const std::string& engine = "squashfuse") const {
        std::vector<std::string> out = command("berth", std::move(arguments));
        out.insert(out.begin() + 2, "BERTH_MOUNT_ENGINE=" + engine);
        return out;
    }
    /// The same with standard error in standard output.
    static std::vector<std::string> in_one(const std::vector<std::string>& command) {
        std::vector<std::string> out{"/bin/sh", "-c", "exec \"$@\" 2>&1", "sh"};
        out.insert(out.end(), command.begin(), command.end());
        return out;
    }
    std::string berth(const std::vector<std::string>& arguments, const std::string& engine = "squashfuse") const {
        Outcome out = as_user([&] { return output_of(in_one(words(arguments, engine))); });
        return out.text + out.error;
    }
    /// The files of images that are kept for squashfuse_ll.
    std::vector<std::string> flat_files() const {
        std::vector<std::string> out;
        std::error_code none;
        for (const auto& entry : std::filesystem::directory_iterator(folder / "store/unpacked", none))
            out.push_back(entry.path());
        return out;
    }
    /// An image of two layers, with what makes them one tree.
    std::string layers() const {
        test::Layout layout;
        fixtures::TarBuilder base, top;
        base.directory("bin/")
            .file("bin/inside", slurp(inside_program()), 0755)
            .directory("data/")
            .directory("data/opaque/", 01777);
        base.file("data/large", noise(300'000))
            .file("data/small", "small", 0600)
            .file("data/gone", "gone")
            .file("data/opaque/below", "below");
        base.hardlink("data/other", "data/large").symlink("data/link", "../etc/passwd");
        base.pax({{"SCHILY.xattr.user.colour", "red"}, {"SCHILY.xattr.user.overlay.opaque", "y"}})
            .item({.name = "data/coloured", .content = "c", .uid = 7});
        top.file("data/.wh.gone", "")
            .file("data/opaque/.wh..wh..opq", "")
            .file("data/opaque/new", "new")
            .file("data/small", "smaller", 04755);
        std::string ids, described;
        for (const std::string& tar : {base.finished(), top.finished()}) {
            ids += cat(ids.empty() ? "" : ",", "\"", layout.blob(tar), "\"");
            described +=
                cat(described.empty() ? "" : ",", test::descriptor("layer.v1.tar", layout.blob(tar), tar.size()));
        }
        std::string config = cat(
            R"({"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[)", ids, "]}}");
        std::string manifest = cat(R"({"schemaVersion":2,"config":)",
                                   test::descriptor("config.v1+json", layout.blob(config), config.size()),
                                   R"(,"layers":[)", described, "]}");
        layout.entries = {layout.entry(layout.blob(manifest), "v1")};
        layout.close();
        for (const char* name : {"layout", "layout/blobs", "layout/blobs/sha256"}) folder.directory(name);
        for (const auto& [name, content] : layout.files) folder.file("layout/" + name, content);
        return "oci:" + folder / "layout";
    }
};

/// The process called `name` below `pid`; 0 when there is none.
pid_t find_below(pid_t pid, const std::string& name) {
    for (const std::string& word :
         split(std::string(trimmed(slurp(cat("/proc/", pid, "/task/", pid, "/children")))), ' ')) {
        if (word.empty()) continue;
        auto child = static_cast<pid_t>(std::stol(word));
        if (trimmed(slurp(cat("/proc/", child, "/comm"))) == name) return child;
        if (pid_t found = find_below(child, name)) return found;
    }
    return 0;
}

/// The lines of list_tree about the image's data.
std::string data_lines(const std::string& listing) {
    std::string out;
    for (const std::string& line : split(listing, '\n'))
        if (line.starts_with("data")) out += line + "\n";
    return out;
}

}  // namespace

TEST_CASE("an image of several layers is by squashfuse_ll what it is by berth", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    std::string image = scene.layers(), lister = beside_tests("list_tree");
    for (const char* option : {"--no-root", "--root"}) {
        std::vector<std::string> list{"run", option, "--mount", lister + ":/lister:ro", image, "/lister", "/"};
        std::string by_us = data_lines(scene.berth(list, "berth")), all = scene.berth(list), by_them = data_lines(all);
        INFO(all);
        CHECK(by_them == by_us);
        CHECK_THAT(by_them, Contains("data/opaque/new") && !Contains("below") && !Contains("gone") &&
                                Contains("colour=") && !Contains("overlay"));
    }
    // One for each owner, which a second start finds.
    CHECK(scene.flat_files().size() == 2);
    scene.berth({"run", image, "/bin/inside"});
    CHECK(scene.flat_files().size() == 2);
    std::filesystem::directory_iterator stored(scene.folder / "store/images");
    CHECK_THAT(scene.berth({"rmi", "sha256:" + stored->path().filename().string()}), Catch::EndsWith("|0"));
    CHECK(scene.flat_files().empty());
}

TEST_CASE("a squashfs file of others is served as it is where its owners allow that", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    for (const char* name : {"tree", "tree/bin", "tree/etc"}) scene.folder.directory(name);
    scene.folder.file("tree/bin/inside", slurp(inside_program()));
    scene.folder.file("tree/etc/hello", "hello");
    REQUIRE(::chmod((scene.folder / "tree/bin/inside").c_str(), 0755) == 0);
    const std::string file = scene.folder / "foreign.sqsh";
    for (const char* format : {"xz", "lzo"}) {
        Outcome made = as_user([&] {
            std::string options = cat(" -noappend -all-root -quiet -no-progress -comp ", format, " >&2");
            return output_of({"/bin/sh", "-c", cat("mksquashfs ", scene.folder / "tree ", file, options)});
        });
        REQUIRE(made.text == "|0");
        size_t before = scene.flat_files().size();
        CHECK_THAT(scene.berth({"run", "--root", file, "/bin/inside"}),
                   Contains("inside uid=0 gid=0") && Contains("|0"));
        CHECK(scene.flat_files().size() == before);
        CHECK_THAT(scene.berth({"run", file, "/bin/inside"}),
                   Contains(cat("inside uid=", test_uid())) && Contains("|0"));
        CHECK(scene.flat_files().size() == before + 1);
    }
}

TEST_CASE("the squashfs within a SIF file is served where it lies", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    for (const char* name : {"tree", "tree/bin"}) scene.folder.directory(name);
    scene.folder.file("tree/bin/inside", slurp(inside_program()));
    REQUIRE(::chmod((scene.folder / "tree/bin/inside").c_str(), 0755) == 0);
    Outcome made = as_user([&] {
        std::string options = " -noappend -all-root -quiet -no-progress >&2";
        return output_of(
            {"/bin/sh", "-c", cat("mksquashfs ", scene.folder / "tree ", scene.folder / "part.sqsh", options)});
    });
    REQUIRE(made.text == "|0");
    std::string part = slurp(scene.folder / "part.sqsh");
    // Behind another part, at an odd place.
    std::vector<fixtures::SifPart> parts{{.type = 0x4001, .offset = 32768, .size = 4321},
                                         {.offset = 32768 + 4321, .size = static_cast<int64_t>(part.size())}};
    scene.folder.file("image.sif", fixtures::sif(parts, std::string(4321, 'z') + part + "behind"));
    CHECK_THAT(scene.berth({"run", "--root", scene.folder / "image.sif", "/bin/inside"}),
               Contains("inside uid=0 gid=0") && Contains("|0"));
    CHECK(scene.flat_files().empty());
    CHECK_THAT(scene.berth({"run", scene.folder / "image.sif", "/bin/inside"}),
               Contains(cat("inside uid=", test_uid())) && Contains("|0"));
    CHECK(scene.flat_files().size() == 1);
}

TEST_CASE("what is written to a container goes over the files of squashfuse_ll", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    auto shell = [&](const std::string& script, const std::string& option) {
        std::vector<std::string> words{"run", option};
        // Not every processor's loader lies in /lib64.
        for (const char* folder : {"/usr", "/lib", "/lib64"})
            if (std::filesystem::exists(folder))
                words.insert(words.end(), {"--mount", cat(folder, ":", folder, ":ro")});
        words.insert(words.end(), {scene.image, "/usr/bin/bash", "--norc", "-c", script});
        return scene.berth(words);
    };
    for (const char* option : {"--root", "--pid"})
        CHECK(shell("exec 2>&1; echo new > /etc/hello; rm /gone; mkdir /gone; mv /folder/below /gone; echo $(< "
                    "/etc/hello) /gone/* $(< /gone/below); "
                    "sleep 100 & exit 3",
                    option) == "new /gone/below of the image\n|3");
}

TEST_CASE("without squashfuse_ll the package is named", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    auto without = [&](const std::vector<std::string>& arguments) {
        std::vector<std::string> words{"/usr/bin/unshare",
                                       "-Urm",
                                       "/bin/sh",
                                       "-c",
                                       "mount --bind /dev/null $(command -v squashfuse_ll) && exec \"$@\"",
                                       "sh"};
        for (const std::string& word : scene.words(arguments)) words.push_back(word);
        Outcome out = as_user([&] { return output_of(EngineScene::in_one(words)); });
        return out.text + out.error;
    };
    CHECK_THAT(without({"run", scene.image, "/bin/inside"}),
               Contains("squashfuse_ll") && Contains("install the package squashfuse") && Contains("|125"));
    CHECK_THAT(without({"doctor"}), Contains("FAILED   file server") && Contains("|1"));
    CHECK_THAT(scene.berth({"doctor"}), Contains("ok       file server"));
}

TEST_CASE("a file that squashfuse_ll refuses ends the start with its words", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    REQUIRE_THAT(scene.berth({"run", scene.image, "/bin/inside"}), Contains("|0"));
    REQUIRE(scene.flat_files().size() == 1);
    REQUIRE(::truncate(scene.flat_files()[0].c_str(), 0) == 0);
    std::string said = scene.berth({"run", scene.image, "/bin/inside"});
    CHECK_THAT(said, Contains("serving the image by squashfuse_ll: the program ended with code") &&
                         Contains("squashfs image") && Contains("|125"));
}

TEST_CASE("a file server that is killed ends its container, which says so", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    bool named = GENERATE(false, true);
    std::vector<std::string> words{"run", scene.image, "/bin/inside", "stay"};
    if (named) words.insert(words.begin() + 1, {"--name", "c"});
    Outcome seen = as_user([&] {
        Beside run(EngineScene::in_one(scene.words(words)));
        std::string text;
        read_until(run.output(), text, "x");
        pid_t server = find_below(::getpid(), "squashfuse_ll"), supervisor = find_below(::getpid(), "berth-files");
        // Those that end a job ask first, and the files are needed until its processes have ended.
        for (pid_t process : {server, supervisor}) fixtures::kill_one(process, SIGTERM);
        ::poll(nullptr, 0, 50);
        text += find_below(::getpid(), "squashfuse_ll") == server ? " lasts " : " gone ";
        text += status_line("CapBnd", cat("/proc/", server, "/status")) +
                status_line("Seccomp", cat("/proc/", server, "/status"));
        fixtures::kill_one(server, SIGKILL);
        int code = code_of(run.wait());
        text += sys::read_all(run.output(), 10'000, "the output");
        return text + cat("|", code, find_below(::getpid(), "berth-files") == 0 ? "" : " the supervisor is left");
    });
    CHECK(seen.error == "");
    CHECK_THAT(seen.text, Catch::StartsWith("x lasts ") && Contains("0000000000000000") && Contains("2"));
    CHECK_THAT(seen.text, Contains("the file server squashfuse_ll of the container was ended by signal 9 (Killed)") &&
                              Catch::EndsWith("|125"));
}

TEST_CASE("a kill of berth ends squashfuse_ll too", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    Outcome seen = as_user([&] {
        Beside run(scene.words({"run", scene.image, "/bin/inside", "stay"}));
        std::string text;
        read_until(run.output(), text, "x");
        Fd server = sys::pidfd_open(find_below(::getpid(), "squashfuse_ll")),
           supervisor = sys::pidfd_open(find_below(::getpid(), "berth-files"));
        run.send(SIGKILL);
        run.wait();
        for (const Fd* process : {&server, &supervisor}) {
            pollfd ended{process->get(), POLLIN, 0};
            text += cat(" ", ::poll(&ended, 1, 5000));
        }
        return text;
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "x 1 1");
}

TEST_CASE("two starts at once make one file for squashfuse_ll", "[kernel][squashfuse]") {
    NEED_CONTAINERS();
    EngineScene scene;
    Outcome seen = as_user([&] {
        Beside one(scene.words({"run", scene.image, "/bin/inside"})),
            other(scene.words({"run", scene.image, "/bin/inside"}));
        return cat(code_of(one.wait()), " ", code_of(other.wait()));
    });
    CHECK(seen.text == "0 0");
    CHECK(scene.flat_files().size() == 1);
    CHECK(std::filesystem::is_empty(scene.folder / "store/tmp"));
}
