// Files that starts read, kept unpacked as a layer of the container's root: what a container sees of them, and what
// becomes of folders that were changed.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/base/sys.hh"
#include "tests/kernel/hot_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::kernel_test::hot;

namespace {

constexpr const char* without = "BERTH_MOUNT_HOT_IMAGE_SIZE=0";

struct HotScene : NamedScene {
    const std::string hot = folder / "store/hot";

    HotScene() : NamedScene(fill) { folder.directory("store"); }

    std::vector<std::string> words(const std::string& script, const std::vector<std::string>& variables,
                                   const std::vector<std::string>& options) const {
        std::vector<std::string> arguments{"run", "--mount", "/usr:/usr:ro"};
        arguments.insert(arguments.end(), options.begin(), options.end());
        arguments.insert(arguments.end(), {image, "/usr/bin/bash", "--norc", "-c", script});
        std::vector<std::string> out = command("berth", arguments);
        out.insert(out.begin() + 2, variables.begin(), variables.end());
        return out;
    }
    std::string run(const std::string& script, const std::vector<std::string>& variables = {},
                    const std::vector<std::string>& options = {}) const {
        return as_user([&] { return output_of(words(script, variables, options)); },
                       std::chrono::seconds(60) * fixtures::slowness())
            .text;
    }
    /// Reads all files, and waits until `pattern` is in the store.
    std::string read_until(const std::string& pattern, const std::vector<std::string>& options = {}) const {
        std::vector<std::string> more{"--mount", folder / "store:/store"};
        more.insert(more.end(), options.begin(), options.end());
        return run(cat("cat /many/f* /many/sticky/f* /many/large /pack/read | md5sum; [ -e /many/none ]; for ((i = 0; "
                       "i < 2000; i++)); do compgen -G '",
                       pattern, "' > /dev/null && break; sleep 0.02; done"),
                   {}, more);
    }
    /// Two starts, after which the files are kept.
    void learn(const std::vector<std::string>& options = {}) const {
        read_until("/store", options);
        read_until("/store/hot/*.0", options);
        REQUIRE(folders().size() == 1);
    }
    std::set<std::string> folders() const {
        std::set<std::string> out;
        if (std::filesystem::exists(hot))
            for (const auto& entry : std::filesystem::directory_iterator(hot)) out.insert(entry.path().filename());
        return out;
    }
    std::string root() const { return cat(hot, "/", *folders().begin(), "/root"); }
};

/// Whether the root has a layer of unpacked files: "hot" or "plain".
constexpr const char* layers = "grep -q 'lowerdir=hot:lower' /proc/self/mounts && echo hot || echo plain";
/// All that stat(2) tells of the image's own, but for numbers of devices, inodes and blocks, the last change, and of
/// directories the size and the links.
constexpr const char* all_of_it =
    "find / -xdev \\( -path /usr -o -path /proc -o -path /dev -o -path /tmp -o -path /etc -o -path /run -o -path /root "
    "\\) -prune -o "
    "\\( -type d -printf '%p %m %U %G %T@\\n' -o -printf '%p %y %m %U %G %n %s %T@ %A@ %l\\n' \\) | grep -v '^/ ' | "
    "sort; "
    "ls -a /many /many/sticky; cd /many; cat f* sticky/f* large second link | md5sum";

}  // namespace

TEST_CASE("hot files: a container shows them as the file server does, for each mapping of users and modes",
          "[kernel][hot]") {
    NEED_HOT();
    std::vector<std::string> options = GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--root"},
                                                std::vector<std::string>{"--read-only"});
    bool image_modes = GENERATE(false, true);
    HotScene scene;
    std::vector<std::string> variables;
    if (image_modes) variables.emplace_back("BERTH_MOUNT_MODES=image");
    if (image_modes && !options.empty()) return;
    std::string pattern = image_modes ? "/store/hot/*.image.*.0" : "/store/hot/*.enroot.*.0";
    scene.learn(options);
    if (image_modes) {
        std::vector<std::string> more{"--mount", scene.folder / "store:/store"};
        scene.run(cat("cat /many/f* /many/sticky/f* > /dev/null; for ((i = 0; i < 2000; i++)); do compgen -G '",
                      pattern, "' > /dev/null && break; sleep 0.02; done"),
                  variables, more);
    }
    CHECK(scene.run(layers, variables, options) == "hot\n|0");
    std::vector<std::string> off = variables;
    off.emplace_back(without);
    CHECK(scene.run(layers, off, options) == "plain\n|0");
    std::string plain = scene.run(all_of_it, off, options);
    CHECK(std::ranges::count(plain, '\n') > small_files);
    CHECK(scene.run(all_of_it, variables, options) == plain);
}

TEST_CASE("hot files: the first start has them written when it has read nothing for some seconds", "[kernel][hot]") {
    NEED_HOT();
    HotScene scene;
    // Where there are few files, nobody guesses, and the second start has them written.
    scene.image = scene.folder / "many.sqfs";
    scene.folder.file("many.sqfs", "");
    {
        Fd file = sys::open_file(scene.image, O_RDWR);
        squash::LayerWriter writer(file.get(), {});
        fill(writer);
        for (int number = 0; number < 20'000; ++number) writer.add_symlink(cat("many/l", number), {}, "f2");
        writer.finish();
    }
    as_user([&] { return std::filesystem::permissions(scene.image, std::filesystem::perms::all), ""; });
    scene.read_until("/store/hot/*.0");
    CHECK(scene.folders().size() == 1);
    CHECK(scene.run(cat(layers, "; cat /many/f2")) == "hot\n" + content(2) + "|0");
}

TEST_CASE("hot files: what a container writes is copied up, saved and compared as without them", "[kernel][hot]") {
    NEED_HOT();
    HotScene scene;
    scene.learn();
    const std::string script = cat(
        layers,
        "; echo more >> /many/f2; rm /many/f4; mv /many/f6 /many/moved; chmod 600 "
        "/many/f8; cat /many/f2 /many/moved; ls /many | md5sum; ls -a /many/sticky | md5sum; "
        "cat /many/none; echo new > /many/none; ls -a /many | md5sum; rm /many/none; mkdir /many/none; cat /many/none; "
        "rm -r /pack/sub; echo more >> /pack/rest; ls -a /pack; rm -r /pack; mkdir /pack; ls -a /pack; "
        "rm /many/link; ln -s f8 /many/link; cat /many/link");
    std::string plain = scene.run(script, {without}), hot = scene.run(script);
    CHECK(hot.starts_with("hot\n"));
    CHECK(hot.substr(4) == plain.substr(6));
    // What is saved is the same image.
    std::string bytes[2];
    for (bool with : {false, true}) {
        std::string saved = scene.folder / cat("saved", with, ".sqfs");
        CHECK(
            scene.run(script, with ? std::vector<std::string>{} : std::vector<std::string>{without}, {"--save", saved})
                .ends_with("|0"));
        std::string image = std::exchange(scene.image, saved);
        bytes[with] = scene.run(cat("cat /many/f2 /many/link; ls -R /many /pack; getfattr -dR /many /pack 2>&1; "
                                    "stat -c '%n %a %Y' /many/[a-k]* /many/m*"),
                                {without});
        scene.image = image;
    }
    CHECK(bytes[0] == bytes[1]);
    CHECK(scene.folders().size() == 1);
    // Nothing of it has reached the folder.
    std::ifstream file(scene.root() + "/many/f2");
    std::string line;
    std::getline(file, line);
    CHECK(line + "\n" == content(2));
}

TEST_CASE("hot files: links, missing names and directories that are whole ask the image for nothing", "[kernel][hot]") {
    NEED_HOT();
    HotScene scene;
    scene.learn();
    struct stat missing {};
    REQUIRE(::lstat((scene.root() + "/many/none").c_str(), &missing) == 0);
    CHECK((S_ISCHR(missing.st_mode) && missing.st_rdev == 0));
    CHECK(std::filesystem::read_symlink(scene.root() + "/many/link") == "f2");
    CHECK(std::filesystem::exists(scene.root() + "/pack/sub/deep"));
    auto opaque = [&](const char* name) {
        char value = ' ';
        return ::getxattr((scene.root() + name).c_str(), "user.overlay.opaque", &value, 1) == 1 && value == 'y';
    };
    CHECK(opaque("/pack"));
    CHECK(opaque("/pack/sub"));
    CHECK_FALSE(opaque("/many"));
    CHECK(scene.run("ls -a /many | grep none; [ -e /many/none ] || echo missing; ls /pack; "
                    "python3 -c 'import os; print(os.listxattr(\"/pack\"))'") ==
          "missing\naway\nread\nrest\nsub\n[]\n|0");
}

TEST_CASE("hot files: with a loader for 32-bit programs inode numbers stay small", "[kernel][hot]") {
    NEED_HOT();
    HotScene scene;
    scene.learn();
    scene.image = scene.folder / "old.sqfs";
    scene.folder.file("old.sqfs", "");
    {
        Fd file = sys::open_file(scene.image, O_RDWR);
        squash::LayerWriter writer(file.get(), {});
        fill_sample(writer);
        for (const char* name : {"lib", "lib64"}) writer.add_symlink(name, {}, std::string("usr/") + name);
        // The node's /usr hides it, later.
        add_file(writer, "usr/lib/ld-linux.so.2", "x", 0755);
        for (int number = 0; number < small_files; ++number) add_file(writer, cat("many/f", number), content(number));
        writer.finish();
    }
    as_user([&] { return std::filesystem::permissions(scene.image, std::filesystem::perms::all), ""; });
    const std::string script = "cat /many/f* > /dev/null; sleep 0.5; stat -c %i /many/f7";
    for (int start = 0; start < 3; ++start) {
        std::string number = scene.run(script);
        CHECK(number.size() < 12);
    }
    CHECK(scene.run(layers) == "plain\n|0");
}

TEST_CASE("hot files: a folder that was changed is given up, with a line for the events", "[kernel][hot]") {
    NEED_HOT();
    HotScene scene;
    scene.learn();
    int kind = GENERATE(0, 1, 2, 3);
    const std::string root = scene.root(), file = root + "/many/f2";
    Outcome changed = as_user([&] {
        if (kind < 2) ::chmod(file.c_str(), 0600);
        if (kind == 0) std::ofstream(file) << "another content\n";
        if (kind == 1) {
            // The same size and time.
            std::ofstream(file) << std::string(content(2).size(), 'x');
            timespec times[2] = {{2'000'002, 0}, {2'000'002, 0}};
            ::utimensat(AT_FDCWD, file.c_str(), times, 0);
            ::chmod(file.c_str(), 0444);
        }
        if (kind == 2) {
            std::filesystem::rename(root + "/many/sticky", root + "/aside");
            std::filesystem::create_symlink("../aside", root + "/many/sticky");
        }
        if (kind == 3) std::filesystem::remove(root + "/../manifest");
        return std::string();
    });
    CHECK(changed.error == "");
    const std::string events = scene.folder / "events";
    scene.run("for ((i = 0; i < 2000; i++)); do [ -e /store/hot/note ] && break; sleep 0.02; done", {},
              {"--mount", scene.folder / "store:/store"});
    CHECK(scene.folders().contains("note"));
    CHECK(scene.run(cat(layers, "; cat /many/f2"), {"BERTH_EVENTS_LOG=" + events}) == "plain\n" + content(2) + "|0");
    std::ifstream log(events);
    std::string line;
    std::getline(log, line);
    CHECK_THAT(line, Catch::Contains("\"note\":\"unpacked files given up: "));
    CHECK_FALSE(scene.folders().contains("note"));
}
