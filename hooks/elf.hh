// What a 64-bit ELF file of the node or of an image says of itself, read by parts. Pure but for the reading.
#pragma once
#include <elf.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace berth::hooks {

/// Up to `size` bytes of a file at `offset`; fewer at the end, none when it cannot be read.
using ReadPart = std::function<std::string(uint64_t offset, size_t size)>;

/// The sections of a file of this machine's byte order. Sizes that the file names are limited, so that no file makes
/// this read more than a few tables.
class ElfSections {
  public:
    explicit ElfSections(ReadPart read);

    /// False for what is no 64-bit ELF file, or has no sections.
    explicit operator bool() const { return !sections_.empty(); }
    uint16_t machine() const { return machine_; }

    /// The first one of a type, or of a name; null when there is none.
    const Elf64_Shdr* of_type(uint32_t type) const;
    const Elf64_Shdr* named(std::string_view name) const;

    /// At most `limit` bytes of a section.
    std::string content(const Elf64_Shdr& section, size_t limit) const;
    /// The texts that a table of names refers to.
    std::string texts_of(const Elf64_Shdr& section) const;

  private:
    ReadPart read_;
    uint16_t machine_ = 0;
    std::vector<Elf64_Shdr> sections_;
    std::string names_;
};

/// What the dynamic loader is told by a shared library.
struct SharedObject {
    uint16_t machine = 0;               ///< EM_*
    std::string soname;                 ///< empty: it has none
    std::vector<std::string> needed;    ///< SONAMEs
    std::vector<std::string> run_path;  ///< folders where what it needs is looked for
    std::set<std::string> versions;     ///< of symbols, that it defines: "GLIBC_2.34"
    /// and that it wants of others, by their SONAMEs
    std::map<std::string, std::set<std::string>> wanted;
};

/// Nothing for what is no shared library with sections.
std::optional<SharedObject> read_shared_object(const ReadPart& read);

/// What a cache of the dynamic loader has of a library.
struct LibraryName {
    std::string soname;   ///< empty: it has none, or no sections that say it
    bool narrow = false;  ///< of 32 bits, whose SONAME is not read
};

/// Nothing for what is no ELF file.
std::optional<LibraryName> read_library_name(const ReadPart& read);

/// The names that a library defines for others, of which `counts` takes those that matter.
std::set<std::string> defined_symbols(const ReadPart& read, bool (*counts)(std::string_view name));

}  // namespace berth::hooks
