// A layer on a file system whose server does not answer.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/fuse_mount.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/user_namespace.hh"
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
