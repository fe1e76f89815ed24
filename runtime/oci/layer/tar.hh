// A streaming tar parser: bytes are pushed in, entries come out exactly as the archive names them. Sources:
// POSIX.1-2017, pax (formats ustar and pax); the GNU tar manual, "Tar Internals".
//
// Our own, since libarchive cleans names up, merges records and guesses: what must be refused here would be hidden
// before we saw it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/oci/layer/tar_header.hh"

namespace berth::oci {

struct TarEntry {
    enum class Type { file, hardlink, symlink, character, block, directory, fifo };
    Type type = Type::file;
    std::string name;   ///< byte-exact, not normalised; never holds a NUL byte
    std::string link;   ///< target of a hard link or symlink
    uint64_t size = 0;  ///< of a file, its holes included
    uint32_t mode = 0;  ///< permission bits only
    uint32_t uid = 0, gid = 0;
    int64_t mtime = 0;                          ///< seconds since 1970; fractions of PAX are rounded down
    std::map<std::string, std::string> xattrs;  ///< all that the archive gives, whatever their namespace
};

/// Receives the entries in the order of the archive. Each entry() is followed by its bytes, for files, and by
/// end_entry().
class TarSink {
  public:
    virtual ~TarSink() = default;
    /// What any of these throws leaves TarParser::feed() or finish(), and the parser is of no more use.
    virtual void entry(const TarEntry& entry) = 0;
    /// The next bytes of the entry; they are the parser's, and gone after the call.
    virtual void data(std::string_view bytes) = 0;
    /// A hole of so many bytes at this place.
    virtual void zeros(uint64_t size) = 0;
    virtual void end_entry() = 0;
    /// Bytes of the archive that are no file's: headers, what extends them, padding, the archive's end, and what
    /// follows it. These and the bytes of data(), in the order of the calls, are the archive.
    virtual void raw(std::string_view) {}
};

/// Reads V7, ustar, PAX and GNU archives, sparse files of all four kinds included. What follows the end of the archive
/// (two zero blocks) is ignored, as GNU tar does. Memory is bounded: long names and PAX headers up to 1 MiB, sparse
/// maps up to a million pieces. Throws Error for all that is malformed, and for entry types that POSIX and GNU tar do
/// not agree on: to guess would be to show another tree than other tools do.
class TarParser {
  public:
    explicit TarParser(TarSink& sink) : sink_(sink) {}

    /// The next bytes of the archive, any number. Throws Error, and what the sink throws.
    void feed(std::string_view data);
    /// Throws Error when the archive stops inside an entry. An archive without its final zero blocks is accepted, as
    /// everybody does.
    void finish();

  private:
    enum class State { header, extension, sparse_block, sparse_map, data, padding, end };

    size_t step(std::string_view data);
    size_t take_block(std::string_view data);
    void handle_block(const uint8_t* block);
    void handle_header(const uint8_t* block);
    void handle_zero_block();
    void handle_sparse_map(const uint8_t* block);
    void begin_extension();
    void finish_extension();
    void begin_entry();
    void apply_pax();
    void set_pieces();
    void begin_data();
    void next_piece();
    void finish_entry();
    [[noreturn]] void refuse(const std::string& why) const;

    TarSink& sink_;
    State state_ = State::header;
    uint8_t block_[tar_block] = {};
    size_t filled_ = 0;  // of block_
    bool zero_block_seen_ = false;

    // what extension headers said of the entry to come
    PaxFields global_, pax_;
    std::string long_name_, long_link_;
    bool extended_ = false;
    char extension_type_ = 0;
    std::string extension_;

    TarHeader header_;
    TarEntry entry_;
    uint64_t stored_ = 0;   // bytes of the entry still to come, without padding
    uint64_t padding_ = 0;  // bytes after them up to a whole block
    std::vector<SparsePiece> pieces_;
    size_t piece_ = 0;
    uint64_t position_ = 0;  // in the file as it will be

    // the numbers of a sparse map of format 1.0 so far
    std::vector<uint64_t> map_numbers_;
    uint64_t map_number_ = 0;
    bool map_digits_ = false;
};

}  // namespace berth::oci
