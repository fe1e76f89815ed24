#include "runtime/pull/image/seal.hh"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/squash/index/index_format.hh"

namespace berth::pull {

namespace {

using squash::BlockSum;
using squash::BlockSums;

static_assert(std::endian::native == std::endian::little && sizeof(BlockSum) == 24,
              "the sums are written as they lie in memory");

constexpr size_t line_size = 128;
constexpr size_t piece = 1 << 20;

/// A layer file that is read from its start to its end.
class Reader {
  public:
    Reader(int fd, const std::string& what, SealRead read)
        : fd_(fd), what_(what), read_(std::move(read)), buffer_(piece) {}

    /// `size` bytes at `at`, at most a piece of them.
    std::string_view bytes(uint64_t at, uint64_t size) {
        if (size > buffer_.size()) buffer_.resize(size);
        if (!sys::pread_exact(fd_, std::span(buffer_).first(size), at, what_))
            throw SysError(cat("reading ", what_), EIO);
        if (read_) read_(size);
        return {buffer_.data(), size};
    }
    void hash(oci::Sha256& hash, uint64_t from, uint64_t to) {
        for (; from < to; from += std::min<uint64_t>(piece, to - from))
            hash.update(bytes(from, std::min<uint64_t>(piece, to - from)));
    }

  private:
    int fd_;
    const std::string& what_;
    SealRead read_;
    std::vector<char> buffer_;
};

std::string line_of(size_t count, const Digest& digest) {
    std::string line = cat("berth-seal 3 ", count, " ", digest);
    line.resize(line_size - 1, ' ');
    return line + '\n';
}

/// The digest in the seal of a file whose squashfs image has `size` bytes, the blocks of `sums` among them.
Digest digest_of(Reader& file, uint64_t size, const BlockSums& sums) {
    oci::Sha256 hash;
    uint64_t at = 0;
    for (const BlockSum& block : sums) {
        file.hash(hash, at, block.start);
        at = block.start + block.size;
    }
    file.hash(hash, at, size);
    hash.update({reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(BlockSum)});
    return hash.finish();
}

/// True when the blocks lie one behind the other in `size` bytes, and each may be one of a squashfs file.
bool in_order(const BlockSums& sums, uint64_t size) {
    constexpr uint64_t largest = 1 << 20;
    uint64_t at = 0;
    for (const BlockSum& block : sums) {
        if (block.start < at || block.start > size || block.size > largest || block.size > size - block.start)
            return false;
        at = block.start + block.size;
    }
    return true;
}

/// The sums before a seal's line; false when there is no such line or they cannot be.
bool read_sums(Reader& file, uint64_t file_size, std::string& line, BlockSums& sums, uint64_t& image_size) {
    if (file_size < line_size) return false;
    line = std::string(file.bytes(file_size - line_size, line_size));
    unsigned long long count = 0;
    if (std::sscanf(line.c_str(), "berth-seal 3 %llu ", &count) != 1 ||
        count > (file_size - line_size) / sizeof(BlockSum))
        return false;
    image_size = file_size - line_size - count * sizeof(BlockSum);
    sums.resize(count);
    std::string_view bytes = file.bytes(image_size, count * sizeof(BlockSum));
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(sums.data()));
    return in_order(sums, image_size);
}

/// A line of this length, "berth-seal N" with a higher number than this release's at its start.
bool is_of_newer_form(const std::string& line) {
    unsigned form = 0;
    return line.ends_with('\n') && std::sscanf(line.c_str(), "berth-seal %u ", &form) == 1 && form > 3;
}

uint64_t size_of(int fd, const std::string& what) { return static_cast<uint64_t>(sys::stat_of(fd, what).st_size); }

}  // namespace

void seal_layer(int fd, const BlockSums& sums, const std::string& what) {
    uint64_t size = size_of(fd, what);
    Reader file(fd, what, {});
    std::string line = line_of(sums.size(), digest_of(file, size, sums));
    if (::lseek(fd, static_cast<off_t>(size), SEEK_SET) < 0) throw SysError(cat("writing ", what));
    sys::write_all(fd, {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(BlockSum)}, what);
    sys::write_all(fd, line, what);
}

std::optional<BlockSums> read_seal(int fd, const std::string& what) {
    Reader file(fd, what, {});
    std::string line;
    BlockSums sums;
    uint64_t size = 0;
    if (!read_sums(file, size_of(fd, what), line, sums, size)) return std::nullopt;
    if (line != line_of(sums.size(), digest_of(file, size, sums)))
        throw Error(cat(what, ": its tables are not those that were stored"));
    return sums;
}

Seal seal_of(int fd, const std::string& what, const SealRead& read) {
    Reader file(fd, what, read);
    std::string line;
    BlockSums sums;
    uint64_t size = 0;
    if (!read_sums(file, size_of(fd, what), line, sums, size))
        return is_of_newer_form(line) ? Seal::newer : Seal::broken;
    if (line != line_of(sums.size(), digest_of(file, size, sums))) return Seal::broken;
    bool same = std::all_of(sums.begin(), sums.end(), [&](const BlockSum& block) {
        return squash::format::bulk_hash(file.bytes(block.start, block.size)) == block.hash;
    });
    return same ? Seal::good : Seal::broken;
}

}  // namespace berth::pull
