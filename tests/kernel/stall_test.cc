// Reads that have to wait: of a layer on a file system whose server does not answer, and of what has still to come.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/base/chunk_map.hh"
#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/fuse_mount.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/user_namespace.hh"
#include "runtime/squash/index/tree_data.hh"
#include "tests/fixtures/processes.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr int names = 2000;

/// Something that a pread() of a block waits in for ever: the device of a mount that nobody uses, when its first
/// request is out of it.
Fd hanging_file(int place) {
    Fd device = mount::open_fuse_device();
    mount::attach_fuse(device.get(), test_uid(), test_gid(), place);
    std::string first(1 << 20, '\0');
    if (::read(device.get(), first.data(), first.size()) <= 0) throw SysError("reading the first request of a mount");
    return device;
}

/// Bytes that are stored in blocks of their own.
std::string noise(size_t size) {
    std::string text;
    for (uint32_t number = 1; text.size() < size; number = number * 1664525 + 1013904223)
        text += static_cast<char>(number >> 24);
    return text;
}

/// How many of the image's names can be looked up while a thread reads the file that hangs.
int found_beside_a_hanging_read(int root) {
    std::thread([root] {
        char byte = 0;
        Fd file(::openat(root, "hangs", O_RDONLY | O_CLOEXEC));
        if (::read(file.get(), &byte, 1) == 1) ::_exit(1);
    }).detach();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    int found = 0;
    struct stat st {};
    for (int number = 0; number < names; ++number) found += ::fstatat(root, cat("name", number).c_str(), &st, 0) == 0;
    return found;
}

void use_one_cpu() {
    cpu_set_t set;
    if (::sched_getaffinity(0, sizeof set, &set) != 0) throw SysError("looking for a CPU");
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &set) && seen++ > 0) CPU_CLR(cpu, &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0) throw SysError("staying on one CPU");
}

}  // namespace

TEST_CASE("hostile: a read that hangs holds up nobody but who asked, also on one CPU", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    bool one_cpu = GENERATE(false, true);
    ContainerImage image = make_image([](squash::LayerWriter& writer) {
        add_file(writer, "hangs", noise(1 << 20));
        for (int number = 0; number < names; ++number) add_file(writer, cat("name", number), "");
    });
    Outcome seen = as_user([&] {
        if (one_cpu) use_one_cpu();
        sandbox::enter_user_namespace({test_uid(), test_uid(), test_gid(), test_gid()});
        sys::make_mounts_private();
        Fd staging = mount::make_staging(0);
        std::vector<Fd> layers;
        layers.push_back(hanging_file(mount::staging_directory(staging.get(), "upper").get()));
        mount::ServerOptions options{
            .uid = test_uid(), .gid = test_gid(), .threads = one_cpu ? 0U : 4U, .cache_bytes = 1 << 20, .confine = {}};
        mount::start_server(std::make_shared<const squash::Index>(std::move(image.index)), layers, options,
                            mount::staging_directory(staging.get(), "lower").get());
        Fd root = mount::staging_directory(staging.get(), "lower");
        return cat(found_beside_a_hanging_read(root.get()), " of ", names);
    });
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == cat(names, " of ", names));
}

namespace {

constexpr int late_files = 40;

/// A child that reads a whole file and ends with 0 when it is `wanted`.
pid_t reader_of(int root, const std::string& name, const std::string& wanted) {
    pid_t child = fixtures::forked();
    if (child != 0) return child;
    Fd file(::openat(root, name.c_str(), O_RDONLY | O_CLOEXEC));
    std::string got(wanted.size(), '\0');
    ssize_t size = ::pread(file.get(), got.data(), got.size(), 0);
    ::_exit(size == static_cast<ssize_t>(got.size()) && got == wanted ? 0 : 1);
}

/// The end of a child as waitpid() tells it; -1 when it goes on after some seconds.
int end_of(pid_t child) {
    for (int tries = 0; tries < 500; ++tries) {
        int status = 0;
        if (::waitpid(child, &status, WNOHANG) == child) return status;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return -1;
}

/// All that a file of the first layer needs is here.
void set_file_here(ChunkMap& map, const squash::Index& index, const std::string& name) {
    auto file = index.file(index.lookup(1, name));
    uint64_t size = 0;
    for (uint32_t block = 0; block < file->block_count; ++block) size += file->blocks[block] & squash::block_size_mask;
    for (uint64_t at = file->start; at < file->start + size; at += 4096)
        map.set_here(static_cast<uint32_t>(at / ChunkMap::chunk_size));
    if (file->has_fragment) map.set_here(static_cast<uint32_t>(file->fragment_start / ChunkMap::chunk_size));
}

}  // namespace

TEST_CASE("early: reads of what has still to come hold up nobody else, and a kill ends them", "[kernel][lifecycle]") {
    NEED_CONTAINERS();
    const std::string late = noise(1 << 20), here = "is here";
    ContainerImage image = make_image([&](squash::LayerWriter& writer) {
        for (int number = 0; number < late_files; ++number) add_file(writer, cat("late", number), late);
        add_file(writer, "here", here);
    });
    Fd chunks(::memfd_create("pieces", MFD_CLOEXEC));
    auto size = static_cast<uint64_t>(sys::stat_of(image.layers[0].get(), "layer").st_size);
    auto count = static_cast<uint32_t>(ChunkMap::chunks_of(size));
    auto map = ChunkMap::create(chunks.get(), count, Digest("sha256:" + std::string(64, '0')));
    set_file_here(*map, image.index, "here");
    Outcome seen = as_user([&] {
        sandbox::enter_user_namespace({test_uid(), test_uid(), test_gid(), test_gid()});
        sys::make_mounts_private();
        Fd staging = mount::make_staging(0);
        mount::ServerOptions options{
            .uid = test_uid(), .gid = test_gid(), .threads = 2, .cache_bytes = 1 << 20, .confine = {}};
        options.coming = {map, {0}, {}};
        mount::start_server(std::make_shared<const squash::Index>(std::move(image.index)), image.layers, options,
                            mount::staging_directory(staging.get(), "lower").get());
        Fd root = mount::staging_directory(staging.get(), "lower");
        std::vector<pid_t> readers;
        for (int number = 0; number < late_files; ++number)
            readers.push_back(reader_of(root.get(), cat("late", number), late));
        for (int tries = 0; tries < 500 && map->wanted().size() < late_files; ++tries)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        std::string text = end_of(reader_of(root.get(), "here", here)) == 0 ? "read" : "not read";
        fixtures::kill_one(readers.back(), SIGKILL);
        text += end_of(readers.back()) == SIGKILL ? ", killed" : ", not killed";
        readers.pop_back();
        for (uint32_t chunk = 0; chunk < count; ++chunk) map->set_here(chunk);
        int right = 0;
        for (pid_t reader : readers) right += end_of(reader) == 0;
        return cat(text, ", ", right, " right");
    }, std::chrono::seconds(60));
    CHECK(seen.error == "");
    CHECK_FALSE(seen.hung);
    CHECK(seen.text == cat("read, killed, ", late_files - 1, " right"));
}
