#include "runtime/squash/format/image_file.hh"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"

namespace berth::squash {

namespace {

constexpr size_t start_size = 2048;

/// The first bytes; fewer where the file is shorter.
std::string start_of(int fd, uint64_t at) {
    std::string out(start_size, '\0');
    ssize_t got = sys::uninterrupted([&] { return ::pread(fd, out.data(), out.size(), static_cast<off_t>(at)); });
    out.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return out;
}

Extent rest_from(int fd, uint64_t offset, const std::string& what) {
    auto size = static_cast<uint64_t>(sys::stat_of(fd, printable(what, 4096)).st_size);
    return {offset, size - std::min(size, offset)};
}

bool has_magic_at(int fd, uint64_t offset) {
    return start_of(fd, offset).starts_with("hsqs");
}

/// The mark of github.com/AppImage/AppImageSpec: "AI" and the form behind ELF's identification, in its padding.
int appimage_form(std::string_view start) {
    bool is_one = start.size() >= sizeof(Elf64_Ehdr) && start.starts_with("\x7f" "ELF") && start.substr(8, 2) == "AI";
    return is_one ? start[10] : 0;
}

template <typename Head>
uint64_t end_of_elf(std::string_view start) {
    Head head;
    std::memcpy(&head, start.data(), sizeof head);
    return head.e_shoff + uint64_t{head.e_shentsize} * head.e_shnum;
}

Extent find_in_appimage(int fd, std::string_view start, const std::string& what) {
    bool is_64 = start[EI_CLASS] == ELFCLASS64;
    uint64_t end = is_64 ? end_of_elf<Elf64_Ehdr>(start) : end_of_elf<Elf32_Ehdr>(start);
    if (end > INT64_MAX || !has_magic_at(fd, end))
        throw Error(cat("reading the AppImage ", printable(what, 4096),
                        ": no squashfs follows its program; unpack it with --appimage-extract and name the directory"));
    return rest_from(fd, end, what);
}

bool has(std::string_view start, size_t at, std::string_view magic) {
    return start.size() >= at + magic.size() && start.substr(at, magic.size()) == magic;
}

bool is_page(std::string_view start) {
    size_t first = start.find_first_not_of(" \t\r\n");
    std::string begin = lower(first == start.npos ? "" : start.substr(first, 16));
    return begin.starts_with("<!doctype") || begin.starts_with("<html") || begin.starts_with("<?xml");
}

}  // namespace

Extent find_squashfs(int fd, const std::string& what) {
    if (is_sif(fd)) return find_sif_partition(fd, what);
    std::string start = start_of(fd, 0);
    // Singularity 2 wrote a line by which the kernel starts it, and the file system behind that.
    if (start.starts_with("#!") && start.substr(0, start.find('\n')).find("run-singularity") != start.npos)
        return rest_from(fd, std::min(start.find('\n'), start.size() - 1) + 1, what);
    return appimage_form(start) == 2 ? find_in_appimage(fd, start, what) : Extent();
}

std::string other_kind(int fd, uint64_t at) {
    std::string start = start_of(fd, at);
    struct Mark {
        size_t at;
        std::string_view magic, kind;
    };
    using namespace std::string_view_literals;
    static constexpr std::string_view mount = "; mount it and name the directory, or make a squashfs file of that";
    static const Mark marks[] = {
        {1024, "\xe2\xe1\xf5\xe0"sv, "an EROFS file system"},
        {1080, "\x53\xef"sv, "an ext2, ext3 or ext4 file system"},
        {0, "XFSB"sv, "an XFS file system"},
    };
    for (const Mark& mark : marks)
        if (has(start, mark.at, mark.magic)) return cat(mark.kind, mount);
    static const Mark others[] = {
        {0, "PK\x03\x04"sv, "a zip archive; unpack it and name what is in it"},
        {0, "070701"sv, "a cpio archive; unpack it and name the directory"},
        {0, "070702"sv, "a cpio archive; unpack it and name the directory"},
        {0, "070707"sv, "a cpio archive; unpack it and name the directory"},
        {0, "\xc7\x71"sv, "a cpio archive; unpack it and name the directory"},
        {0, "version https://git-lfs.github.com/spec/"sv,
         "a pointer of git-lfs, not the file itself; bring that with git lfs pull"},
        {0, "sqsh"sv, "a squashfs of a big-endian machine; make it again with a current mksquashfs"},
    };
    for (const Mark& mark : others)
        if (has(start, mark.at, mark.magic)) return std::string(mark.kind);
    if (appimage_form(start) == 1)
        return "an AppImage of the first form; unpack it with --appimage-extract and name the directory";
    if (is_page(start))
        return "a page of HTML or XML, such as a server sends for an error or a login; fetch the image again";
    return {};
}

}  // namespace berth::squash
