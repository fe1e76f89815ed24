#include "runtime/images/spelling.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/fd.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/packing.hh"
#include "runtime/request/reference.hh"

namespace berth {

namespace {

constexpr size_t block_size = 512;

/// The octal number in a field of a tar header.
uint64_t octal(const char* field, size_t size) {
    uint64_t out = 0;
    for (size_t i = 0; i < size && field[i] >= '0' && field[i] <= '7'; ++i)
        out = out * 8 + static_cast<uint64_t>(field[i] - '0');
    return out;
}

/// Good enough for a hint: only plain names, and not too many entries.
std::string kind_of_tar(int fd) {
    constexpr unsigned entry_limit = 10'000;
    char block[block_size];
    bool has_layout = false, has_blobs = false;
    uint64_t at = 0;
    for (unsigned i = 0; i < entry_limit; ++i) {
        if (::pread(fd, block, sizeof block, static_cast<off_t>(at)) != sizeof block || block[0] == '\0') break;
        std::string name(block, ::strnlen(block, 100));
        if (name.starts_with("./")) name.erase(0, 2);
        if (name == "manifest.json") return "docker-archive";
        has_layout |= name == "oci-layout";
        has_blobs |= name == "index.json" || name.starts_with("blobs/");
        at += block_size + (octal(block + 124, 11) + block_size - 1) / block_size * block_size;
    }
    return has_layout && has_blobs ? "oci-archive" : "tar";
}

/// As layers are, or with what archives alone are packed with: the magic numbers of xz, bzip2 and lz4. Skippable frames
/// of lz4 begin like those of zstd.
bool is_packed(std::string_view start) {
    constexpr std::string_view magics[] = {"\xfd" "7zXZ", "BZh", "\x04\x22\x4d\x18"};
    return oci::packing_of(start) != oci::Packing::plain ||
           std::any_of(std::begin(magics), std::end(magics),
                       [&](std::string_view magic) { return start.starts_with(magic); });
}

}  // namespace

std::string archive_kind(int fd) {
    char block[block_size] = {};
    if (::pread(fd, block, sizeof block, 0) < 4) return {};
    if (is_packed({block, sizeof block})) return "packed";
    return std::memcmp(block + 257, "ustar", 5) == 0 ? kind_of_tar(fd) : "";
}

std::string archive_spelling(const std::string& kind, const std::string& path) {
    std::string shown = printable(path, 4096);
    if (kind == "docker-archive" || kind == "oci-archive") return cat(kind, ":", shown);
    if (kind == "packed")
        return cat("docker-archive:", shown, " when docker save or podman save made it, oci-archive:", shown,
                   " for an OCI archive");
    return cat("docker-archive:", shown,
               " for a root file system of docker export, which this one may be, since it has neither a manifest.json "
               "nor an oci-layout; or unpack it and name the directory");
}

void check_is_no_file(const std::string& text, const std::string& cwd) {
    if (!plan::looks_like_image_file(text)) return;
    Fd file(::open(cat(cwd, "/", text).c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    struct stat st {};
    if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return;
    std::string kind = archive_kind(file.get());
    if (kind.empty()) throw Error(plan::image_file_mistake(text));
    throw Error(cat("image ", printable(text),
                    ": this names an image of a registry, but a file of that name is in the working directory; write ",
                    archive_spelling(kind, "./" + text)));
}

}  // namespace berth
