// Sparse files of an image stay sparse for who looks at them, and when they are changed.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr off_t kib = 1 << 10, mib = 1 << 20;

/// KiB that a file takes.
std::string taken(const std::string& path) {
    struct stat st {};
    return ::stat(path.c_str(), &st) == 0 ? cat(st.st_blocks / 2) : "none";
}

std::string places(const std::string& path) {
    Fd fd = sys::open_file(path, O_RDONLY);
    off_t hole = ::lseek(fd.get(), 0, SEEK_HOLE), data = ::lseek(fd.get(), hole, SEEK_DATA),
          end = ::lseek(fd.get(), data, SEEK_HOLE);
    return cat("hole at ", hole / kib, " data at ", data / kib, " end at ", end / kib);
}

}  // namespace

TEST_CASE("a sparse file is told, and copied up, without its holes", "[kernel][start]") {
    NEED_CONTAINERS();
    const std::string content = std::string(256 * kib, 'a') + std::string(32 * mib, '\0') + std::string(64 * kib, 'b');
    Outcome seen = in_container(
        plan_for(), [&](squash::LayerWriter& writer) { fill_sample(writer), add_file(writer, "sparse", content); },
        [&] {
            std::string text = cat(taken("/sparse"), " ", places("/sparse"), "; ");
            { Fd copied = sys::open_file("/sparse", O_WRONLY); }
            // The overlay copies what is not a hole in pieces of 1 MiB.
            return text + cat(std::stoi(taken("/sparse")) <= 2 * 1024 ? "few" : taken("/sparse"),
                              slurp("/sparse") == content ? " same" : " DIFFERENT");
        });
    CHECK(seen.error == "");
    CHECK(seen.text == "320 hole at 256 data at 33024 end at 33088; few same");
}
