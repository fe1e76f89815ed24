// Damaged layers behind a mount: whoever reads gets EIO or the right bytes.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "tests/kernel/support.hh"

using namespace berth;
using namespace berth::kernel_test;

namespace {

constexpr uint32_t files = 60;

/// Every third one does not compress, every third one is a tail in a fragment.
std::string content(uint32_t number) {
    std::mt19937 random(number);
    std::string out(number % 3 == 0 ? 300'000 : 150'000 + number, '\0');
    for (char& c : out) c = static_cast<char>(number % 3 == 0 ? random() : 'a' + random() % 3);
    return out;
}

void fill(squash::LayerWriter& writer) {
    fill_sample(writer);
    for (uint32_t i = 0; i < files; ++i) add_file(writer, cat("data/", i), content(i));
}

void flip(int fd, uint64_t at) {
    char byte = 0;
    REQUIRE(::pread(fd, &byte, 1, static_cast<off_t>(at)) == 1);
    byte = static_cast<char>(byte ^ 4);
    REQUIRE(::pwrite(fd, &byte, 1, static_cast<off_t>(at)) == 1);
}

/// "right", "wrong", or the reason of an error.
std::string read_and_compare(uint32_t number) {
    try {
        return slurp(cat("/data/", number)) == content(number) ? "right" : "wrong";
    } catch (const SysError& error) {
        return reason(error.number());
    }
}

}  // namespace

TEST_CASE("hostile row 48: flipped bits in the blocks of a layer are EIO in the container, and nothing else",
          "[kernel]") {
    NEED_CONTAINERS();
    ContainerImage image = make_image(fill);
    uint32_t folder = image.index.lookup(1, "data");
    std::mt19937 random(48);
    for (uint32_t i = 0; i < files; i += 2) {
        auto file = image.index.file(image.index.lookup(folder, std::to_string(i))).value();
        flip(image.layers[0].get(), file.start + random() % (file.blocks[0] & 0xFFFFFF));
    }
    Outcome outcome = as_user([&] {
        StartedContainer container = start_container(bare_plan(), std::move(image), {});
        return run_task(container, [] {
            std::string text;
            for (uint32_t i = 0; i < files; ++i) text += read_and_compare(i) + "\n";
            return text;
        });
    });
    CHECK(outcome.error == "");
    std::string expected;
    for (uint32_t i = 0; i < files; ++i) expected += cat(i % 2 == 0 ? reason(EIO) : "right", "\n");
    CHECK(outcome.text == expected);
}
