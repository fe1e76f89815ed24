// A program whose image comes while it reads, for the laboratory: waits for the image's chunks one after the other, as
// a start does that reads in the order of its profile.
//
//     read_profile STORE DIGEST PIECE...
//
// Waits until the image can start. Exit code 1: a chunk cannot be had; 2: the image does not begin to come.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/store/partial.hh"

using namespace berth;

namespace {

constexpr auto patience = std::chrono::minutes(2);
constexpr auto between_looks = std::chrono::milliseconds(10);

std::optional<store::Partial> wait_for_image(const std::string& path, const Digest& image) {
    std::string list = cat(path, "/partial/", image.hex(), "/pieces");
    auto end = std::chrono::steady_clock::now() + patience;
    for (struct stat st; ::stat(list.c_str(), &st) != 0; std::this_thread::sleep_for(between_looks))
        if (std::chrono::steady_clock::now() > end) return std::nullopt;
    return store::find_partial(store::Store::open(path), image, store::Access::read);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 3) throw Error("usage: read_profile STORE DIGEST PIECE...");
    auto partial = wait_for_image(argv[1], Digest(argv[2]));
    if (!partial) return 2;
    for (int i = 3; i < argc; ++i)
        if (partial->map->wait({static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)), 1}) != 0) return 1;
    return 0;
} catch (const std::exception& problem) {
    std::cerr << "read_profile: " << problem.what() << '\n';
    return 2;
}
