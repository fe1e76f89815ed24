// Lists of what starts read, as they lie in a store.
#include "runtime/images/prefetch_record.hh"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"
#include "runtime/squash/write/writer.hh"
#include "tests/catch.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/squash_tools.hh"

using namespace berth;

namespace {

constexpr uint32_t files = 400;

/// A store and an image of it, as a start has them.
struct Scene {
    fixtures::TempFolder folder;
    std::string path = folder / "store";
    std::string id = opened().image.index.id();
    std::string list = cat(path, "/prefetch/", id);

    store::Store store() const { return store::Store::open(path); }

    static OpenedImage opened() {
        Fd file(::memfd_create("layer", MFD_CLOEXEC));
        squash::LayerWriter writer(file.get(), {});
        for (uint32_t i = 0; i < files; ++i) {
            writer.begin_file(std::to_string(i), {.mode = 0644, .xattrs = {}});
            writer.end_file();
        }
        writer.finish();
        std::vector<squash::LayerInfo> layers(1);
        squash::Tree tree = squash::read_tree(file.get(), "layer", 0, layers[0]);
        ContainerImage image{squash::Index::from_bytes(squash::build_index(tree, layers, {})), {}};
        image.layers.push_back(std::move(file));
        return {std::move(image), {}};
    }

    /// A start that reads so many files from `first` on, and keeps that.
    OpenedImage started(uint32_t first, uint32_t count) const {
        OpenedImage out = opened();
        prefetch_known_reads(out, store());
        for (uint32_t i = 0; i < count; ++i) out.image.reads.log->add(2 + (first + i) % files, 0, 4096);
        return out;
    }
    /// What the next start knows.
    std::optional<squash::PrefetchList> known() const {
        OpenedImage next = opened();
        prefetch_known_reads(next, store());
        if (!next.image.reads.known) return std::nullopt;
        return squash::parse_prefetch_list(*next.image.reads.known);
    }
    size_t temporary_files() const {
        size_t count = 0;
        for (const auto& one : std::filesystem::recursive_directory_iterator(path + "/tmp"))
            count += one.is_regular_file();
        return count;
    }
};

}  // namespace

TEST_CASE("prefetch: a start keeps what it has read, and the next one knows it", "[prefetch]") {
    Scene scene;
    CHECK_FALSE(scene.known());
    scene.started(0, 200).image.reads.keep();
    REQUIRE(scene.known());
    CHECK(scene.known()->extents.size() == 200);
    // Of a start that has read little.
    scene.started(300, 20).image.reads.keep();
    CHECK(scene.known()->extents.size() == 200);
    scene.started(100, 200).image.reads.keep();
    CHECK(scene.known()->extents.size() == 300);
}

TEST_CASE("hostile: of many starts that keep a list at once each leaves a whole one", "[prefetch]") {
    Scene scene;
    scene.started(0, 150).image.reads.keep();
    std::atomic<bool> over = false;
    std::atomic<int> looks = 0, wrong = 0;
    std::thread reader([&] {
        for (; !over; ++looks)
            if (auto list = scene.known(); !list || list->extents.size() < 150) ++wrong;
    });
    std::vector<std::thread> writers;
    for (uint32_t writer = 0; writer < 4; ++writer)
        writers.emplace_back([&, writer] {
            for (uint32_t turn = 0; turn < 25; ++turn) scene.started(writer * 97 + turn * 13, 150).image.reads.keep();
        });
    for (std::thread& writer : writers) writer.join();
    over = true;
    reader.join();
    CHECK(looks > 0);
    CHECK(wrong == 0);
    CHECK(scene.temporary_files() == 0);
}

TEST_CASE("hostile: on a full disk a list stays as it was, and the end of a container is no error", "[prefetch]") {
    Scene scene;
    scene.started(0, 150).image.reads.keep();
    OpenedImage more = scene.started(100, 300), of_none = scene.started(0, 200);
    pid_t child = fixtures::forked();
    if (child == 0) {
        // Nothing can be written any more: EFBIG, as ENOSPC would be.
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit none{0, 0};
        if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(2);
        more.image.reads.keep();
        ::_exit(0);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    REQUIRE(scene.known());
    CHECK(scene.known()->extents.size() == 150);
    CHECK(scene.temporary_files() == 0);
    // Where there was none, there is none.
    REQUIRE(::unlink(scene.list.c_str()) == 0);
    child = fixtures::forked();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit none{0, 0};
        if (::setrlimit(RLIMIT_FSIZE, &none) != 0) ::_exit(2);
        of_none.image.reads.keep();
        ::_exit(0);
    }
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK_FALSE(scene.known());
}

TEST_CASE("hostile: what lies in a list's place is no list, and costs no more than one", "[prefetch]") {
    Scene scene;
    scene.started(0, 150).image.reads.keep();
    std::string whole = sys::read_file(scene.list);
    REQUIRE(::unlink(scene.list.c_str()) == 0);
    auto put = [&](const std::string& bytes) {
        sys::write_all(sys::open_file(scene.list, O_WRONLY | O_CREAT | O_TRUNC, 0600).get(), bytes, "a list");
    };
    SECTION("a folder, and then nothing can be kept") {
        REQUIRE(::mkdir(scene.list.c_str(), 0700) == 0);
        CHECK_FALSE(scene.known());
        scene.started(0, 150).image.reads.keep();
        CHECK_FALSE(scene.known());
        CHECK(scene.temporary_files() == 0);
    }
    SECTION("a pipe that nobody writes to") {
        REQUIRE(::mkfifo(scene.list.c_str(), 0600) == 0);
        CHECK_FALSE(scene.known());
    }
    SECTION("a link to another file") {
        sys::write_all(scene.folder.create("elsewhere").get(), whole, "a file");
        REQUIRE(::symlink((scene.folder / "elsewhere").c_str(), scene.list.c_str()) == 0);
        CHECK_FALSE(scene.known());
    }
    SECTION("a file of a terabyte") {
        put(whole);
        REQUIRE(::truncate(scene.list.c_str(), off_t{1} << 40) == 0);
        CHECK_FALSE(scene.known());
    }
    SECTION("one that was cut off") {
        put(whole.substr(0, whole.size() - 7));
        auto list = scene.known();
        CHECK((!list || list->extents.empty()));
    }
    SECTION("another image's, of files that this one has not") {
        squash::PrefetchList other{::time(nullptr), {}, {}};
        for (uint32_t i = 0; i < 1000; ++i) other.extents.push_back({i * 7919, i, 1});
        put(squash::format_prefetch_list(other));
        // No inode is 0.
        CHECK(scene.known()->extents.size() == 999);
    }
    // Where it is not kept out for good, the next start puts that right.
    struct stat st {};
    REQUIRE(::lstat(scene.list.c_str(), &st) == 0);
    if (S_ISDIR(st.st_mode)) return;
    scene.started(0, 150).image.reads.keep();
    REQUIRE(scene.known());
    CHECK(scene.known()->extents.size() >= 150);
}

TEST_CASE("hot files: none are kept where a site says which images may run, or does not want them", "[hot]") {
    plan::Site site;
    CHECK(hot_limits(site).wanted());
    int kind = GENERATE(0, 1, 2, 3, 4);
    if (kind == 0) site.policy.signatures = "/etc/containers/policy.json";
    if (kind == 1) site.policy.image_owners = {"root"};
    if (kind == 2) site.policy.image_paths = {"/images"};
    if (kind == 3) site.mount.hot_image_size = 0;
    if (kind == 4) site.mount.hot_store_size = 0;
    CHECK_FALSE(hot_limits(site).wanted());
}
