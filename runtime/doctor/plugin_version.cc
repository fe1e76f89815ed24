#include "runtime/doctor/plugin_version.hh"

#include <elf.h>

#include <cstring>
#include <string_view>

#include "runtime/base/sys.hh"

namespace berth {

namespace {

constexpr std::string_view name = "plugin_version";
/// A file may say that each of its sections is a table of as many symbols as fit into a number.
constexpr unsigned lookups_limit = 1 << 16;

class ElfFile {
  public:
    explicit ElfFile(int fd) : fd_(fd) {}

    bool open() {
        return read(0, header_) && std::memcmp(header_.e_ident, ELFMAG, SELFMAG) == 0 &&
               header_.e_ident[EI_CLASS] == ELFCLASS64;
    }

    std::optional<uint32_t> find() {
        for (uint64_t i = 0; i < header_.e_shnum; ++i) {
            Elf64_Shdr symbols{}, names{};
            if (!section(i, symbols)) return std::nullopt;
            if (symbols.sh_type != SHT_DYNSYM || !section(symbols.sh_link, names)) continue;
            if (auto value = find_in(symbols, names)) return value;
        }
        return std::nullopt;
    }

  private:
    /// False where the file ends before, and when enough was read of it.
    template <typename T>
    bool read(uint64_t offset, T& out) {
        return ++lookups_ <= lookups_limit && offset < (1ULL << 32) &&
               sys::pread_exact(fd_, sys::bytes_of(out), offset, "the plugin");
    }

    bool section(uint64_t number, Elf64_Shdr& out) {
        return number < header_.e_shnum && read(header_.e_shoff + number * sizeof out, out);
    }

    std::optional<uint32_t> find_in(const Elf64_Shdr& symbols, const Elf64_Shdr& names) {
        for (uint64_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol{};
            Elf64_Shdr home{};
            char text[name.size() + 1] = {};
            uint32_t value = 0;
            if (!read(symbols.sh_offset + at, symbol)) break;
            if (read(names.sh_offset + symbol.st_name, text) && std::string_view(text, sizeof text - 1) == name &&
                text[name.size()] == '\0' && section(symbol.st_shndx, home) &&
                read(home.sh_offset + (symbol.st_value - home.sh_addr), value))
                return value;
        }
        return std::nullopt;
    }

    int fd_;
    Elf64_Ehdr header_{};
    unsigned lookups_ = 0;
};

}  // namespace

std::optional<uint32_t> plugin_version_in(int fd) {
    ElfFile file(fd);
    return file.open() ? file.find() : std::nullopt;
}

}  // namespace berth
