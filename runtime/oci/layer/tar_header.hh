// The fixed blocks and the PAX records of a tar archive, decoded. Pure functions; sources: POSIX pax, and the GNU tar
// manual for its extensions.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::oci {

inline constexpr size_t tar_block = 512;

/// The largest number a size, offset or time may be; no file is larger.
inline constexpr uint64_t tar_number_limit = (1ULL << 62);

/// A piece of a sparse file that is stored; what lies between pieces is zeros.
struct SparsePiece {
    uint64_t offset = 0;
    uint64_t length = 0;
};

/// A header block as it stands, before PAX and GNU records change it.
struct TarHeader {
    char type = 0;
    std::string name;  ///< the ustar prefix joined
    std::string link;
    uint64_t size = 0;
    bool size_is_open = false;  ///< the field says zero or nothing useful: a PAX size may say something else
    uint32_t mode = 0;
    uint32_t uid = 0, gid = 0;
    int64_t mtime = 0;
    /// Of the old GNU sparse type 'S': its first pieces, the whole file's size, and whether a block with more pieces
    /// follows.
    std::vector<SparsePiece> pieces;
    uint64_t real_size = 0;
    bool more_pieces = false;
};

/// What PAX records say of an entry. Names and values are bytes, whatever their encoding.
struct PaxFields {
    std::optional<std::string> path, link;
    std::optional<uint64_t> size;
    std::optional<uint32_t> uid, gid;
    std::optional<int64_t> mtime;
    std::map<std::string, std::string> xattrs;  ///< all of SCHILY.xattr.*, without that prefix

    // GNU.sparse.*, formats 0.0, 0.1 and 1.0
    std::optional<std::string> sparse_name;
    std::optional<uint64_t> sparse_size;
    bool sparse_map_in_data = false;  ///< format 1.0
    bool sparse_map_given = false;    ///< formats 0.x
    std::vector<SparsePiece> pieces;
};

/// Whether all 512 bytes are zero: two such blocks end an archive.
bool is_zero_block(const uint8_t* block);

/// Whether the checksum field is the sum of the block's bytes, taken as unsigned or (as old tars did) as signed.
bool checksum_matches(const uint8_t* block);

/// Throws Error for a number that is none, is negative where it cannot be, or is past tar_number_limit.
TarHeader decode_header(const uint8_t* block);

/// The pieces in a continuation block of type 'S', appended to `pieces`; true when one more block follows.
bool decode_sparse_block(const uint8_t* block, std::vector<SparsePiece>& pieces);

/// Applies the records of one PAX header to `fields`; a later record wins. With `global`, records that would rename or
/// resize all following entries are refused: no honest archive has them, and tools disagree about their meaning; xattrs
/// are ignored. Throws Error for a malformed record.
void decode_pax(std::string_view records, bool global, PaxFields& fields);

}  // namespace berth::oci
