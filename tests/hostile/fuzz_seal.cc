// Seals of layer files. With an odd first byte the input is a file as it lies; with an even one it is sealed first: a
// number of blocks, two bytes each for where the next one starts and its size, and the bytes; then one byte changes.
#include <sys/mman.h>

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/pull/image/seal.hh"
#include "runtime/squash/index/index_format.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;
using squash::BlockSums;

Fd file_of(std::string_view bytes) {
    Fd file(::memfd_create("layer", MFD_CLOEXEC));
    sys::write_all(file.get(), bytes, "layer");
    return file;
}

void run_file(std::string_view input) {
    Fd file = file_of(input);
    bool good = pull::seal_of(file.get(), "layer", {}) == pull::Seal::good;
    hostile::refusing([&] {
        auto sums = pull::read_seal(file.get(), "layer");
        must(sums || !good, "a seal is good and cannot be read");
        if (sums)
            for (const squash::BlockSum& sum : *sums)
                must(sum.start + sum.size <= input.size(), "a block ends behind the file");
    });
}

BlockSums blocks_of(std::string_view& input) {
    std::vector<std::pair<unsigned, unsigned>> steps(hostile::take_byte(input) % 16);
    for (auto& [gap, size] : steps) gap = hostile::take_byte(input), size = hostile::take_byte(input);
    BlockSums out;
    size_t at = 0;
    for (auto [gap, size] : steps) {
        if (at + gap + size > input.size()) break;
        out.push_back({at + gap, size, squash::format::bulk_hash(input.substr(at + gap, size))});
        at += gap + size;
    }
    return out;
}

bool same(const BlockSums& one, const BlockSums& other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(), [](const auto& left, const auto& right) {
        return left.start == right.start && left.size == right.size && left.hash == right.hash;
    });
}

void run_sealed(std::string_view input) {
    size_t place = hostile::take_byte(input) << 8;
    place += hostile::take_byte(input);
    BlockSums sums = blocks_of(input);
    Fd file = file_of(input);
    pull::seal_layer(file.get(), sums, "layer");
    auto read = pull::read_seal(file.get(), "layer");
    must(read && same(*read, sums), "a seal that was made is another one");
    must(pull::seal_of(file.get(), "layer", {}) == pull::Seal::good, "a seal that was made is not good");

    std::string bytes = sys::read_file("/proc/self/fd/" + std::to_string(file.get()), 1 << 20);
    place %= bytes.size();
    bytes[place] = static_cast<char>(bytes[place] ^ 1);
    Fd changed = file_of(bytes);
    must(pull::seal_of(changed.get(), "layer", {}) != pull::Seal::good, "a file that has changed has a good seal");
    bool in_block = std::any_of(sums.begin(), sums.end(), [&](const squash::BlockSum& sum) {
        return place >= sum.start && place < sum.start + sum.size;
    });
    hostile::refusing([&] { must(!pull::read_seal(changed.get(), "layer") || in_block, "a change goes unseen"); });
}

void run(std::string_view input) { hostile::take_byte(input) % 2 == 1 ? run_file(input) : run_sealed(input); }

const hostile::Registration registration("seal", run);

}  // namespace
