// Sums of parts of a file, by which what is read later is held to what was looked at before, whoever writes to the file
// meanwhile.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/siphash.hh"
#include "runtime/squash/format/sif.hh"

namespace berth::squash {

class PartSums {
  public:
    static constexpr uint32_t chunk = 16 << 10;  ///< bytes that have a sum of their own, counted from the part's start

    struct Part {
        Extent place;
        std::vector<uint64_t> sums;
    };

    SipKey key;
    std::vector<Part> parts;  ///< of a SIF file: the system partition, then its overlays, the lowest first
    std::string content;      ///< SHA-256 of what the parts hold, hexadecimal digits

    /// The sums of `data`, which starts where a chunk does.
    void add_sums(std::string_view data, std::vector<uint64_t>& out) const;

    /// Fills `out` with the bytes of the file `fd` at `offset`, which lie in one part. 0, or -EIO where they do not,
    /// and where they are not what the sums are of. Bytes are looked at where nobody else can write.
    int read(int fd, std::span<char> out, uint64_t offset) const;

    /// Lines of words, for another process; and one such line that is read. False for a line that is none of these.
    std::string text() const;
    bool take_line(std::string_view line);
    /// Whether each part has all of its sums.
    bool is_whole() const;

  private:
    int read_chunks(int fd, const Part& part, uint64_t number, std::span<char> out) const;
};

}  // namespace berth::squash
