// What the file server keeps in memory.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/namespaces.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/mount/fuse/server.hh"
#include "runtime/mount/rootfs/root.hh"
#include "runtime/sandbox/user_namespace.hh"
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

}  // namespace

TEST_CASE("the file server gives back what it keeps when nothing is read", "[kernel][memory]") {
    NEED_CONTAINERS();
    Outcome seen = as_user([&] {
        Fd staging = enter_namespaces();
        Fd root = serve(staging, sample_image(), sample_options());
        std::string text;
        const uint64_t before = own_memory();
        for (int turn = 0; turn < 2; ++turn) {
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
            text += busy > before + (32 << 10) ? "kept" : cat("only ", busy, " of ", before, " kB");
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
