// What the file server keeps in memory, and what is read ahead of a container.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/data_sweep.hh"
#include "runtime/mount/fuse/prefetcher.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "runtime/squash/read/small_files.hh"
#include "tests/fixtures/processes.hh"
#include "tests/fixtures/slowness.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;
using berth::fixtures::comes_true;

namespace {

constexpr int small_files = 300, large_files = 48;
constexpr size_t large_size = 1 << 20;

std::string small_content(int number) { return cat("content of small file ", number, "\n"); }

/// It can be packed, so that blocks of it are kept unpacked.
std::string large_content(int number) {
    std::string text;
    for (int line = 0; text.size() < large_size; ++line) text += cat("line ", line, " of file ", number, "\n");
    text.resize(large_size);
    return text;
}

ContainerImage sample_image() {
    return make_image([](squash::LayerWriter& writer) {
        for (int number = 0; number < small_files; ++number)
            add_file(writer, cat("small", number), small_content(number));
        for (int number = 0; number < large_files; ++number)
            add_file(writer, cat("large", number), large_content(number));
    });
}

mount::ServerOptions sample_options() {
    mount::ServerOptions options;
    options.uid = test_uid();
    options.gid = test_gid();
    options.threads = 2;
    options.cache_bytes = 64 << 20;
    return options;
}

/// In namespaces of its own; the result is the staging area.
Fd enter_namespaces() {
    sandbox::enter_user_namespace({test_uid(), test_uid(), test_gid(), test_gid()});
    sys::make_mounts_private();
    return mount::make_staging(0);
}

Fd serve(const Fd& staging, std::shared_ptr<const squash::Index> index, const std::vector<Fd>& layers,
         const mount::ServerOptions& options) {
    mount::start_server(std::move(index), layers, options, mount::staging_directory(staging.get(), "lower").get());
    return mount::staging_directory(staging.get(), "lower");
}

Fd serve(const Fd& staging, ContainerImage image, const mount::ServerOptions& options) {
    return serve(staging, std::make_shared<const squash::Index>(std::move(image.index)), image.layers, options);
}

std::string content_of(int root, const std::string& name) {
    Fd file(::openat(root, name.c_str(), O_RDONLY | O_CLOEXEC));
    return file ? sys::read_all(file.get(), 4 << 20, name) : "";
}

/// How many files are as they should be.
int right_files(int root) {
    int right = 0;
    for (int number = 0; number < small_files; ++number)
        right += content_of(root, cat("small", number)) == small_content(number);
    for (int number = 0; number < large_files; ++number)
        right += content_of(root, cat("large", number)) == large_content(number);
    return right;
}

/// The same in a child, whose memory is not the server's.
bool all_are_right(int root) {
    pid_t child = fixtures::forked();
    if (child == 0) ::_exit(right_files(root) == small_files + large_files ? 0 : 1);
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

/// Kilobytes of this process that are no file's.
uint64_t own_memory() {
    std::ifstream file("/proc/self/smaps_rollup");
    for (std::string line; std::getline(file, line);)
        if (uint64_t value = 0; line.starts_with("Anonymous:")) {
            std::string_view number = trimmed(std::string_view(line).substr(10));
            if (parse_number(number.substr(0, number.find(' ')), UINT64_MAX, value)) return value;
        }
    return 0;
}

/// Whether the kernel has all of a file in memory, without bringing it there.
bool is_in_memory(int root, const std::string& name) {
    Fd file(::openat(root, name.c_str(), O_RDONLY | O_CLOEXEC));
    auto size = static_cast<size_t>(sys::stat_of(file.get(), name).st_size);
    void* memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw SysError("mapping a file");
    std::vector<unsigned char> pages(size / static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + 1, 1);
    int failed = ::mincore(memory, size, pages.data());
    ::munmap(memory, size);
    return failed == 0 && std::all_of(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

/// A package of Python, and before it what no guess follows from: files without an ending.
ContainerImage package_image() {
    return make_image([](squash::LayerWriter& writer) {
        for (const char* folder : {"lib", "lib/__pycache__", "other", "other/__pycache__"})
            writer.add_directory(folder, {});
        for (int number = 0; number < small_files; ++number)
            add_file(writer, cat("small", number), small_content(number));
        for (const char* folder : {"lib/__pycache__/", "other/__pycache__/"})
            for (int number = 0; number < small_files; ++number)
                add_file(writer, cat(folder, "m", number, ".pyc"), small_content(number));
    });
}

squash::PrefetchList all_of(const squash::Index& index) {
    squash::PrefetchList out{1, {}, {}};
    for (uint32_t number = 1; number <= index.inode_count(); ++number)
        if (auto inode = index.inode(number); inode && S_ISREG(inode->mode))
            out.extents.push_back({number, 0, static_cast<uint32_t>(inode->size / squash::prefetch_page + 1)});
    return out;
}

}  // namespace

TEST_CASE("the file server gives back what it keeps when nothing is read", "[kernel][memory]") {
    NEED_CONTAINERS();
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        Fd root = serve(staging, sample_image(), sample_options());
        std::string text;
        // As an index that was built in this process: malloc would keep as much from then on.
        ::free(::malloc(30 << 20));
        const uint64_t before = own_memory();
        for (int turn = 0; turn < 2; ++turn) {
            // What tests before have left in this process is given back, too.
            const uint64_t idle = own_memory();
            if (!all_are_right(root.get())) return cat(text, "wrong bytes");
            // What is read in parts is kept.
            for (int number = 0; number < large_files; ++number) {
                Fd file(::openat(root.get(), cat("large", number).c_str(), O_RDONLY | O_CLOEXEC));
                ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
                ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
                char byte = 0;
                for (size_t at = 4096; at < large_size; at += 128 << 10)
                    (void)!::pread(file.get(), &byte, 1, static_cast<off_t>(at));
            }
            uint64_t busy = own_memory();
            text += busy > idle + (32 << 10) ? "kept" : cat("only ", busy, " beside ", idle, " kB");
            comes_true([&] { return own_memory() <= before + (4 << 10); }, std::chrono::seconds(30));
            uint64_t after = own_memory();
            text += after <= before + (4 << 10) ? ", given back; " : cat(", still ", after, " of ", before, " kB; ");
        }
        return text + (all_are_right(root.get()) ? "right" : "wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "kept, given back; kept, given back; right");
}

TEST_CASE("prefetch: what earlier containers have read is in memory before it is read", "[kernel][prefetch]") {
    NEED_CONTAINERS();
    bool follows = GENERATE(true, false);
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        ContainerImage image = sample_image();
        squash::PrefetchList list = all_of(image.index);
        if (!follows) std::erase_if(list.extents, [&](const auto& extent) { return extent.count == 1; });
        mount::ServerOptions options = sample_options();
        auto known = std::make_shared<const std::string>(squash::format_prefetch_list(list));
        options.reads = std::make_shared<squash::ReadLog>(known);
        mount::IdleProcess prefetcher = mount::start_prefetcher(image.index, known, [] {});
        options.prefetcher = prefetcher.channel.get();
        Fd root = serve(staging, std::move(image), options);
        mount::show_mount(prefetcher, root.get());
        std::string last = cat("large", large_files - 1);
        std::string text = is_in_memory(root.get(), last) ? "there before; " : "";
        for (int number = 0; number < small_files; ++number)
            if (content_of(root.get(), cat("small", number)) != small_content(number)) return text + "wrong bytes";
        if (!prefetcher.process.ends_within(std::chrono::seconds(10) * fixtures::slowness())) text += "goes on; ";
        // What the process asked for last may come after its end.
        auto is_there = [&] { return is_in_memory(root.get(), last); };
        text += (follows ? comes_true(is_there) : is_there()) ? "there" : "not there";
        return text + (all_are_right(root.get()) ? ", right" : ", wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == (follows ? "there, right" : "not there, right"));
}

TEST_CASE("prefetch: where nothing is known, the byte code beside what is read is in memory before it is read",
          "[kernel][prefetch]") {
    NEED_CONTAINERS();
    bool guesses = GENERATE(true, false);
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        ContainerImage image = package_image();
        mount::ServerOptions options = sample_options();
        options.reads = std::make_shared<squash::ReadLog>(nullptr);
        mount::IdleProcess prefetcher = mount::start_prefetcher(image.index, nullptr, [] {});
        options.prefetcher = prefetcher.channel.get();
        options.guesser = guesses ? prefetcher.process.get() : 0;
        Fd root = serve(staging, std::move(image), options);
        mount::show_mount(prefetcher, root.get());
        for (int number = 0; number < small_files; ++number)
            if (content_of(root.get(), cat("small", number)) != small_content(number)) return cat("wrong bytes");
        const std::string last = cat("lib/__pycache__/m", small_files - 1, ".pyc");
        content_of(root.get(), "lib/__pycache__/m0.pyc");
        auto is_there = [&] { return is_in_memory(root.get(), last); };
        std::string text = guesses && comes_true(is_there) ? "there" : is_there() ? "there already" : "not there";
        // Nobody has read of it.
        if (is_in_memory(root.get(), "other/__pycache__/m0.pyc")) text += " as all else";
        return text + (content_of(root.get(), last) == small_content(small_files - 1) ? ", right" : ", wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == (guesses ? "there, right" : "not there, right"));
}

TEST_CASE("prefetch: when a first start is over, its files can be kept unpacked", "[kernel][prefetch]") {
    NEED_CONTAINERS();
    Outcome seen = as_user([&] {
        auto&& [told, tell] = sys::make_pipe();
        Fd staging = enter_namespaces();
        ContainerImage image = package_image();
        mount::ServerOptions options = sample_options();
        options.reads = std::make_shared<squash::ReadLog>(nullptr);
        mount::HotWork hot;
        hot.write = [fd = tell.get()](const squash::PrefetchList& list, const std::function<bool(uint64_t)>& goes_on) {
            std::string text = cat(list.extents.size() >= small_files ? "all" : "not all");
            if (!goes_on(1)) text += ", no room";
            (void)!::write(fd, text.data(), text.size());
        };
        hot.descriptors = {tell.get()};
        mount::IdleProcess prefetcher = mount::start_prefetcher(image.index, nullptr, [] {}, hot);
        options.prefetcher = prefetcher.channel.get();
        options.guesser = prefetcher.process.get();
        Fd root = serve(staging, std::move(image), options);
        mount::show_mount(prefetcher, root.get());
        for (int number = 0; number < small_files; ++number) content_of(root.get(), cat("small", number));
        tell.reset();
        char text[64] = "";
        (void)!::read(told.get(), text, sizeof text - 1);
        bool ends = prefetcher.process.ends_within(std::chrono::seconds(10) * fixtures::slowness());
        return cat(text, ends ? "" : ", goes on");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "all");
}

TEST_CASE("sweep: when some files of a data set were read, all small ones are in memory, and no large one",
          "[kernel][prefetch][sweep]") {
    NEED_CONTAINERS();
    bool sweeps = GENERATE(true, false), walked = GENERATE(false, true);
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        ContainerImage image = sample_image();
        mount::ServerOptions options = sample_options();
        options.kind = mount::ServedKind::data;
        mount::IdleProcess sweep = mount::start_data_sweep(image.index, [] {});
        options.prefetcher = sweep.channel.get();
        options.sweeper = sweeps ? sweep.process.get() : 0;
        Fd root = serve(staging, std::move(image), options);
        mount::show_mount(sweep, root.get());
        // The kernel has the names then, without the inodes.
        if (walked) {
            std::unique_ptr<DIR, int (*)(DIR*)> names(
                ::fdopendir(::openat(root.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), ::closedir);
            while (::readdir(names.get()) != nullptr) continue;
        }
        const std::string last = cat("small", small_files - 1);
        std::string text;
        for (int number = 0; number < 256; ++number) {
            if (number == 255) text = is_in_memory(root.get(), last) ? "there before; " : "";
            if (content_of(root.get(), cat("small", number)) != small_content(number)) return text + "wrong bytes";
        }
        if (sweeps && !sweep.process.ends_within(std::chrono::seconds(10) * fixtures::slowness())) text += "goes on; ";
        // What the process asked for last may come after its end.
        auto is_there = [&] { return is_in_memory(root.get(), last); };
        text += (sweeps ? comes_true(is_there) : is_there()) ? "there" : "not there";
        if (is_in_memory(root.get(), "large0")) text += ", large ones too";
        return text + (all_are_right(root.get()) ? ", right" : ", wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == (sweeps ? "there, right" : "not there, right"));
}

TEST_CASE("sweep: a data set that is too large for the memory is left alone, and one it becomes short for is left",
          "[kernel][prefetch][sweep]") {
    NEED_CONTAINERS();
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        ContainerImage image = sample_image();
        auto index = std::make_shared<const squash::Index>(std::move(image.index));
        Fd root = serve(staging, index, image.layers, sample_options());
        uint64_t all = squash::small_files(*index, UINT64_MAX).memory;
        auto swept = [&](std::optional<uint64_t> limit, uint64_t left) {
            return mount::sweep(*index, root.get(), [=] { return MemoryRoom{limit, left}; }, 1000);
        };
        std::string text;
        if (swept({}, 4 * all - 1) != 0 || swept(4 * all - 1, UINT64_MAX) != 0) text += "too much; ";
        // Nothing is left from the second look on.
        int looks = 0;
        auto room = [&] { return MemoryRoom{{}, looks++ < 2 ? uint64_t{256} << 20 : 0}; };
        uint64_t some = mount::sweep(*index, root.get(), room, 1000);
        uint64_t whole = swept({}, uint64_t{256} << 20);
        text += some < whole ? "stops; " : cat(some, " of ", whole, "; ");
        text += mount::sweep(*index, root.get(), [] { return MemoryRoom{}; }, 0) == 0 ? "" : "has no end; ";
        return text + (all_are_right(root.get()) ? "right" : "wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "stops; right");
}

TEST_CASE("hostile: a list that is another image's, huge or made up costs bounded time, and no byte is wrong",
          "[kernel][prefetch]") {
    NEED_CONTAINERS();
    int kind = GENERATE(0, 1, 2, 3);
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        ContainerImage image = sample_image();
        squash::PrefetchList list{1, {}, {}};
        uint32_t count = image.index.inode_count();
        for (uint32_t i = 0; i < squash::prefetch_extents; ++i) {
            if (kind == 0) list.extents.push_back({i * 7919 % (2 * count), i * 31, i % 64 + 1});
            if (kind == 1) list.extents.push_back({UINT32_MAX - i, UINT32_MAX - i, UINT32_MAX});
            // Directories, and places behind the end of a file.
            if (kind == 2) list.extents.push_back({i % 4 + 1, i % 2 == 0 ? 0U : 1'000'000U, 16384});
            if (kind == 2 && i < squash::prefetch_names) list.missing.push_back({i % 4, cat("small", i)});
            if (kind == 3) list.extents.push_back({i % count + 1, 0, 16384});
        }
        auto index = std::make_shared<const squash::Index>(std::move(image.index));
        Fd root = serve(staging, index, image.layers, sample_options());
        int looks = 0;
        // With no memory left from a moment on, it stops.
        auto room = [&] { return MemoryRoom{{}, ++looks < 20 ? uint64_t{256} << 20 : 0}; };
        uint64_t bytes = mount::read_ahead(*index, list, root.get(), room, 1000);
        bool all = all_are_right(root.get());
        return cat(bytes <= 64 << 20 ? "bounded" : cat(bytes, " bytes"), all ? ", right" : ", wrong bytes");
    }, std::chrono::seconds(120));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == "bounded, right");
}

TEST_CASE("prefetch: the process that reads ahead ends with its container by SIGKILL", "[kernel][prefetch]") {
    NEED_CONTAINERS();
    enum class Kind { list, guesses, sweep } kind = GENERATE(Kind::list, Kind::guesses, Kind::sweep);
    auto&& [told, tell] = sys::make_pipe();
    pid_t server = fixtures::forked();
    if (server == 0) {
        as_user_here();
        Fd staging = enter_namespaces();
        ContainerImage image = sample_image();
        auto list = std::make_shared<const std::string>(squash::format_prefetch_list(all_of(image.index)));
        mount::ServerOptions options = sample_options();
        mount::IdleProcess prefetcher =
            kind == Kind::sweep ? mount::start_data_sweep(image.index, [] {})
                                : mount::start_prefetcher(image.index, kind == Kind::guesses ? nullptr : list, [] {});
        options.prefetcher = prefetcher.channel.get();
        Fd root = serve(staging, std::move(image), options);
        mount::show_mount(prefetcher, root.get());
        if (kind == Kind::guesses)
            for (uint32_t inode = 2; inode < 100; ++inode) mount::tell_read(prefetcher.channel.get(), inode, 0);
        else
            mount::tell_prefetcher(prefetcher.channel.get(), true);
        pid_t number = prefetcher.process.get();
        (void)!::write(tell.get(), &number, sizeof number);
        for (;;) ::pause();
    }
    pid_t prefetcher = 0;
    REQUIRE(::read(told.get(), &prefetcher, sizeof prefetcher) == sizeof prefetcher);
    fixtures::kill_one(server, SIGKILL);
    CHECK(::waitpid(server, nullptr, 0) == server);
    // Who has been given it may not have asked for its end yet.
    auto has_ended = [&] {
        std::ifstream stat(cat("/proc/", prefetcher, "/stat"));
        std::string text;
        return !std::getline(stat, text) || text[text.rfind(')') + 2] == 'Z';
    };
    CHECK(comes_true(has_ended));
}
