// What the dynamic loader reads of a 64-bit ELF file before anything of it runs, as its program headers and its dynamic
// section say. Pure but for the reading.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace berth::mount {

/// Up to `size` bytes of a file at `offset`; fewer at the end, none when it cannot be read.
using ReadPart = std::function<std::string(uint64_t offset, size_t size)>;

struct ElfPart {
    uint64_t offset = 0;
    uint64_t size = 0;
    bool operator==(const ElfPart&) const = default;
};

struct ElfLoads {
    std::vector<ElfPart> parts;       ///< names, symbols, relocations, and what these change; may be past the end
    std::vector<std::string> needed;  ///< names of other libraries, without a slash
};

/// Whatever the bytes: some reads of at most 64 KiB each, and a few hundred names. Empty for what is no such file.
ElfLoads elf_loads(const ReadPart& read);

}  // namespace berth::mount
