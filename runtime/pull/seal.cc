#include "runtime/pull/seal.hh"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/image/digest.hh"

namespace berth::pull {

namespace {

constexpr size_t seal_size = 128;
constexpr size_t piece = 1 << 20;

std::string seal_of(int fd, uint64_t size, const std::string& what, const std::function<void(uint64_t)>& advance = {}) {
    image::Sha256 hash;
    std::vector<char> buffer(piece);
    for (uint64_t at = 0; at < size;) {
        size_t part = std::min<uint64_t>(piece, size - at);
        if (!sys::pread_exact(fd, buffer.data(), part, at, what)) throw SysError(cat("reading ", what), EIO);
        hash.update(buffer.data(), part);
        at += part;
        if (advance) advance(part);
    }
    std::string seal = "berth-seal " + hash.finish();
    seal.resize(seal_size - 1, ' ');
    return seal + '\n';
}

uint64_t size_of(int fd, const std::string& what) { return static_cast<uint64_t>(sys::stat_of(fd, what).st_size); }

}  // namespace

void seal_layer(int fd, const std::string& what) {
    uint64_t size = size_of(fd, what);
    std::string seal = seal_of(fd, size, what);
    if (::lseek(fd, static_cast<off_t>(size), SEEK_SET) < 0) throw SysError(cat("writing ", what));
    sys::write_all(fd, seal, what);
}

bool has_good_seal(int fd, const std::string& what, const std::function<void(uint64_t bytes)>& advance) {
    uint64_t size = size_of(fd, what);
    if (size < seal_size) return false;
    std::string seal(seal_size, '\0');
    if (!sys::pread_exact(fd, seal.data(), seal.size(), size - seal_size, what)) return false;
    return seal == seal_of(fd, size - seal_size, what, advance);
}

}  // namespace berth::pull
