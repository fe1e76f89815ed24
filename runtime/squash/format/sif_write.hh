// Writes SIF files as Apptainer writes them: a definition, objects of JSON, and a squashfs that is the root.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace berth::squash {

/// An object with a text, which is said to be JSON.
struct SifText {
    std::string name;
    std::string content;
};

/// All of a SIF file but for its partition.
struct SifForm {
    std::string architecture;       ///< as images name it ("amd64"); another than those of the format: unknown
    std::array<char, 16> id = {};   ///< a UUID
    int64_t time = 0;               ///< at which it was made, seconds since 1970
    std::string definition;         ///< what it was made of, as a definition file says it
    std::vector<SifText> texts = {};
};

/// Where in the file the partition begins: a multiple of 4096. Pure.
uint64_t sif_partition_start(const SifForm& form);

/// Writes what stands before the partition, which `fd`, opened for writing, has from there on to its end already. The
/// objects are one group, whose members a signature of the whole covers. Throws Error naming `what`.
void write_sif(int fd, const SifForm& form, const std::string& what);

}  // namespace berth::squash
