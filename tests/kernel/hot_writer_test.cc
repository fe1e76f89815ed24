// Who writes the folders of files that are kept unpacked: killed, two at once, without room; and who removes them.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/fixtures/processes.hh"
#include "tests/kernel/hot_support.hh"

using namespace berth;
using namespace berth::kernel_test;
using namespace berth::kernel_test::hot;

namespace {

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
