// libarchive over an open file: the entries of a tar archive, or the bytes of a compressed file.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "runtime/base/fd.hh"
#include "runtime/oci/source/files.hh"

struct archive;
struct archive_entry;

namespace berth::oci {

/// Reads with pread only, so that the descriptor's position does not matter. Every function throws Error with
/// libarchive's reason, without the name of the archive; a failed system call comes out as the SysError.
class ArchiveReader {
  public:
    enum class As {
        tar,         ///< entries; the bytes between headers are skipped, not read
        compressed,  ///< one entry with the bytes behind all compressions of the file
    };

    /// `file` must stay open. `what` names the archive in a SysError.
    ArchiveReader(int file, As as, const std::string& what);
    ~ArchiveReader();

    /// The header of the next entry, valid until the next call; null at the end.
    archive_entry* next();
    /// Where the header of that entry, or the end of the archive, begins.
    uint64_t header_position() const;
    /// Where the bytes of the entry begin, before any of them is read.
    uint64_t data_position() const;

    /// How many compressions are around the bytes. Known after next().
    unsigned compressions() const;
    /// All bytes of the entry; `advance` comes to the size of the file. Throws Error when anything but zeros follows
    /// the compressed data.
    void read_all(const Sink& sink, const Advance& advance);

  private:
    struct Input;
    struct Free {
        void operator()(archive* reader) const;
    };

    [[noreturn]] void fail() const;
    bool is_of_locale(int result) const;

    std::unique_ptr<Input> input_;  // libarchive has its address
    std::unique_ptr<archive, Free> reader_;
    bool is_open_ = false;  // by the first next(), which reads
};

}  // namespace berth::oci
