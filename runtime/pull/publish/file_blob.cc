#include "runtime/pull/publish/file_blob.hh"

#include <cerrno>
#include <span>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::pull {

namespace {

constexpr size_t read_size = 1 << 20;

}  // namespace

void read_through(int fd, const std::string& what, const oci::Sink& sink) {
    std::vector<char> buffer(read_size);
    auto size = static_cast<uint64_t>(sys::stat_of(fd, what).st_size);
    for (uint64_t at = 0; at < size; at += buffer.size()) {
        std::span<char> part = std::span(buffer).first(std::min<uint64_t>(read_size, size - at));
        if (!sys::pread_exact(fd, part, at, what)) throw SysError(cat("reading ", what), EIO);
        sink({part.data(), part.size()});
    }
}

oci::Descriptor descriptor_of(int fd, const std::string& type, const std::string& what) {
    oci::Sha256 hash;
    read_through(fd, what, [&](std::string_view bytes) { hash.update(bytes); });
    return {type, hash.finish(), static_cast<uint64_t>(sys::stat_of(fd, what).st_size)};
}

}  // namespace berth::pull
