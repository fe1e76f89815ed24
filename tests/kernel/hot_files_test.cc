// Files that starts read, kept unpacked as a layer of the container's root: what a container sees of them, who writes
// them, and what becomes of folders that were changed.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "runtime/base/sys.hh"
#include "runtime/store/hot_writer.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/named_support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr int small_files = 200;
constexpr const char* without = "BERTH_MOUNT_HOT_IMAGE_SIZE=0";

std::string content(int number) {
    return cat("content of file ", number, "\n");
}

void fill(squash::LayerWriter& writer) {
    for (const char* name : {"lib", "lib64", "sbin"}) writer.add_symlink(name, {}, std::string("usr/") + name);
    writer.add_directory("usr", {});
    writer.add_directory("many", {.mode = 0751, .mtime = 1'000'000, .xattrs = {}});
    writer.add_directory("many/sticky", {.mode = 01777, .mtime = 3'000'000, .xattrs = {}});
    for (int number = 0; number < small_files; ++number) {
        uint32_t mode = number % 3 == 0 ? 0755 : number % 3 == 1 ? 0640 : 0444;
        writer.begin_file(cat("many/", number % 2 == 0 ? "" : "sticky/", "f", number),
                          {.mode = mode, .mtime = 2'000'000 + number, .xattrs = {}});
        writer.append(content(number));
        writer.end_file();
    }
    writer.begin_file("many/setuid", {.mode = 04755, .xattrs = {}});
    writer.append("x");
    writer.end_file();
    writer.add_hardlink("many/second", "many/f0");
    writer.add_symlink("many/link", {.mode = 0777, .mtime = 6'000'000, .xattrs = {}}, "f2");
    for (const char* name : {"pack", "pack/sub"}) writer.add_directory(name, {.mode = 0755, .mtime = 7, .xattrs = {}});
    for (const char* name : {"pack/read", "pack/rest", "pack/sub/deep"}) {
        writer.begin_file(name, {.mode = 0644, .mtime = 8, .xattrs = {}});
        writer.append(name);
        writer.end_file();
    }
    writer.add_symlink("pack/away", {.mode = 0777, .mtime = 9, .xattrs = {}}, "/usr/nowhere");
    writer.begin_file("many/large", {.mode = 0644, .mtime = 5'000'000, .xattrs = {}});
    for (int line = 0; line < 200'000; ++line) writer.append(cat("line ", line, "\n"));
    writer.end_file();
}

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

std::string place_problem() {
    Folder folder;
    Fd place = sys::open_file(folder / "", O_RDONLY | O_DIRECTORY);
    struct statvfs fs {};
    if (::fstatvfs(place.get(), &fs) == 0 && fs.f_bavail < fs.f_blocks / 5) return "less than a fifth of /tmp is free";
    return store::can_keep_hot(place.get()) ? "" : "/tmp is no ext4, xfs or btrfs";
}

#define NEED_HOT()     \
    NEED_CONTAINERS(); \
    NEED(place_problem())

/// A store, and what is written to it from an image in memory.
struct WriterScene {
    Folder folder;
    std::string path = folder / "store";

    /// Runs `body` with all that a writer has, as root of nothing.
    Outcome write(const std::function<bool(uint64_t)>& goes_on, uint64_t image_size = 1ULL << 30) const {
        return as_user(
            [&] {
                ::umask(0);
                store::Store store = store::Store::open(path);
                ContainerImage image = make_image(fill);
                Fd hot = store.directory("hot");
                squash::PrefetchList list{1, {}, {}};
                for (uint32_t inode = 1; inode <= image.index.inode_count(); ++inode)
                    list.extents.push_back({inode, 0, 1});
                std::vector<squash::LayerInfo> about = image.index.layers();
                squash::DataReader reader(std::move(image.layers), about, 1 << 20);
                store::write_hot({hot.get(), key(image.index.id()), {image_size, 4ULL << 30}}, image.index, reader,
                                 list, goes_on);
                auto found = store::find_hot(store, key(image.index.id()));
                std::string change = found ? store::hot_change(found->lease.get()) : "";
                return found ? cat("kept", change) : std::string("none");
            },
            std::chrono::seconds(60) * fixtures::slowness());
    }
    static store::HotKey key(const std::string& index) {
        return {index, ::getegid(), plan::ImageModes::enroot, store::boot_word(), 1};
    }
    std::set<std::string> folders() const {
        std::set<std::string> out;
        for (const auto& entry : std::filesystem::directory_iterator(path + "/hot"))
            out.insert(entry.path().filename());
        return out;
    }
    void check_contents() const {
        std::string root = cat(path, "/hot/", *folders().begin(), "/root");
        int wrong = 0;
        for (int number = 2; number < small_files; ++number) {
            std::ifstream file(cat(root, "/many/", number % 2 == 0 ? "" : "sticky/", "f", number));
            std::string line;
            std::getline(file, line);
            wrong += line + "\n" != content(number);
        }
        CHECK(wrong == 0);
        CHECK_FALSE(std::filesystem::exists(root + "/many/f0"));
        CHECK_FALSE(std::filesystem::exists(root + "/many/setuid"));
    }
};

const auto always = [](uint64_t) { return true; };

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

TEST_CASE("hot files: a writer that is killed at any point leaves a whole folder, or what the next one goes on with",
          "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    int kills = 0;
    // Each one comes a little further than the one before.
    for (int pieces = 0;; ++pieces) {
        int left = pieces % 4 == 0 ? 0 : pieces % 23;
        Outcome seen = scene.write([&](uint64_t) {
            if (left-- == 0) ::raise(SIGKILL);
            return true;
        });
        if (seen.text == "kept") break;
        ++kills;
        for (const std::string& name : scene.folders()) CHECK(name.ends_with(".part"));
        REQUIRE(scene.folders().size() == 1);
        REQUIRE(pieces < 500);
    }
    CHECK(kills > 5);
    CHECK(scene.folders().size() == 1);
    scene.check_contents();
}

TEST_CASE("hot files: of two writers at once one writes, and without time the rest is left", "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    auto&& [told, tell] = sys::make_pipe();
    auto&& [wait, go] = sys::make_pipe();
    std::string first;
    pid_t child = fixtures::forked();
    if (child == 0) {
        bool begun = false;
        Outcome seen = scene.write([&](uint64_t) {
            char byte = 'x';
            if (!std::exchange(begun, true)) (void)!::write(tell.get(), &byte, 1), (void)!::read(wait.get(), &byte, 1);
            return true;
        });
        ::_exit(seen.text == "kept" ? 0 : 1);
    }
    char byte = 0;
    REQUIRE(::read(told.get(), &byte, 1) == 1);
    CHECK(scene.write(always).text == "none");
    REQUIRE(::write(go.get(), &byte, 1) == 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    scene.check_contents();
    WriterScene other;
    CHECK(other.write([](uint64_t) { return false; }).text == "none");
    CHECK(other.write(always).text == "kept");
}

TEST_CASE("hot files: marks that a killed writer has left are not those of the next", "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    REQUIRE(scene.write(always).text == "kept");
    Outcome changed = as_user([&] {
        const std::string whole = cat(scene.path, "/hot/", *scene.folders().begin());
        std::filesystem::rename(whole, whole + ".part");
        return ::mknod((whole + ".part/root/pack/other").c_str(), S_IFCHR, 0) == 0 ? "" : "no mark";
    });
    REQUIRE(changed.text + changed.error == "");
    CHECK(scene.write(always).text == "kept");
    scene.check_contents();
    CHECK_FALSE(std::filesystem::exists(cat(scene.path, "/hot/", *scene.folders().begin(), "/root/pack/other")));
}

TEST_CASE("hot files: a disk that is full, and a limit that is small, leave nothing", "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    pid_t child = fixtures::forked();
    if (child == 0) {
        // EFBIG, as ENOSPC would be.
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit least{1 << 20, 1 << 20};
        if (::setrlimit(RLIMIT_FSIZE, &least) != 0) ::_exit(2);
        ::_exit(scene.write(always).text == "none" ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(scene.folders().empty());
    CHECK(scene.write(always, 1).text == "none");
    CHECK(scene.folders().empty());
    CHECK(scene.write(always, 4000).text == "kept");
}

TEST_CASE("hot files: a folder in use is not removed, and no start finds one that is removed", "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    REQUIRE(scene.write(always).text == "kept");
    Outcome seen = as_user([&] {
        store::Store store = store::Store::open(scene.path);
        std::string index = make_image(fill).index.id(), text;
        store::HotKey key = WriterScene::key(index);
        auto found = store::find_hot(store, key);
        store::remove_hot_of(store, index);
        text += store::find_hot(store, key) ? "stays" : "gone";
        store::HotKey other = key;
        other.learnt = 2;
        text += store::find_hot(store, other) ? ", another list's" : "";
        other = key;
        other.boot = "00000000";
        text += store::find_hot(store, other) ? ", another boot's" : "";
        found.reset();
        store::remove_hot_of(store, index);
        return text + (store::find_hot(store, key) ? ", stays" : ", gone");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "stays, gone");
    CHECK(scene.folders().empty());
}

TEST_CASE("hostile: what lies in the place of a folder is none", "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    REQUIRE(scene.write(always).text == "kept");
    const std::string folder = cat(scene.path, "/hot/", *scene.folders().begin());
    int kind = GENERATE(0, 1, 2, 3);
    Outcome seen = as_user([&] {
        store::Store store = store::Store::open(scene.path);
        if (kind == 0) {
            std::filesystem::rename(folder, scene.path + "/aside");
            std::filesystem::create_directory_symlink("../aside", folder);
        }
        if (kind == 1) {
            std::filesystem::rename(folder + "/root", folder + "/aside");
            std::filesystem::create_directory_symlink("aside", folder + "/root");
        }
        // Others may look, and write.
        if (kind == 2) ::chmod(folder.c_str(), 0777);
        if (kind == 3) std::filesystem::remove_all(folder + "/root");
        std::string text;
        try {
            text = store::find_hot(store, WriterScene::key(make_image(fill).index.id())) ? "found" : "none";
        } catch (const Error&) {
            text = "none";
        }
        return text;
    });
    CHECK(seen.text == "none");
}

TEST_CASE("hot files: a sweep removes what no start will use, and after a refusal no start finds any",
          "[kernel][hot]") {
    NEED_HOT();
    WriterScene scene;
    REQUIRE(scene.write(always).text == "kept");
    const std::string kept = *scene.folders().begin();
    Outcome seen = as_user([&] {
        store::Store store = store::Store::open(scene.path);
        Fd hot = store.directory("hot");
        std::string boot = store::boot_word();
        timespec old[2] = {{1000, 0}, {1000, 0}};
        const std::string abandoned = cat("b.1.enroot.", boot, ".1.0.part"), unused = cat("c.1.enroot.", boot, ".1.0");
        for (const std::string& name : {std::string("a.1.enroot.00000000.1.0"), cat("gone.d.1.enroot.", boot, ".1.0"),
                                        abandoned, unused, cat("e.1.enroot.", boot, ".1.0.part")})
            std::filesystem::create_directories(cat(scene.path, "/hot/", name, "/root/x"));
        for (const std::string& name : {abandoned, unused}) ::utimensat(hot.get(), name.c_str(), old, 0);
        store::sweep_hot(store, 7 * 24 * 3600);
        std::string text;
        for (const std::string& name : scene.folders()) text += name == kept ? "kept " : name.substr(0, 2);
        store::HotKey key = WriterScene::key(make_image(fill).index.id());
        store::refuse_hot(hot.get(), boot, "unpacked files cannot be used: no overlay");
        text += store::find_hot(store, key) ? "; found, " : "; none, ";
        text += store::take_hot_note(store);
        text += "; " + store::take_hot_note(store);
        // A sweep leaves that as it is.
        store::sweep_hot(store, -1);
        return text + (store::find_hot(store, key) ? "found" : "none");
    });
    CHECK(seen.error == "");
    CHECK(seen.text == "kept e.; none, unpacked files cannot be used: no overlay; none");
}
