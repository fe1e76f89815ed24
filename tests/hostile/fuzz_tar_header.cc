// The blocks of a tar archive by themselves: headers, the pieces of sparse files, PAX records. The first byte of an
// input chooses.
#include "runtime/oci/layer/tar_header.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

void check_pieces(const std::vector<oci::SparsePiece>& pieces, size_t limit) {
    must(pieces.size() <= limit, "there are more pieces than room for them");
    for (const oci::SparsePiece& piece : pieces)
        must(piece.offset <= oci::tar_number_limit && piece.length <= oci::tar_number_limit, "a piece is too far out");
}

void run_header(const std::string& block) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(block.data());
    must(oci::is_zero_block(bytes) == (block.find_first_not_of('\0') == block.npos), "zeros are none");
    oci::checksum_matches(bytes);
    oci::TarHeader header = oci::decode_header(bytes);
    must(header.name.size() <= 256 && header.link.size() <= 100, "a name is longer than its field");
    must(header.size <= oci::tar_number_limit && header.real_size <= oci::tar_number_limit && header.mode <= 07777,
         "a number is out of range");
    check_pieces(header.pieces, 4);
}

void run_blocks(std::string_view input) {
    std::string block(oci::tar_block, '\0');
    std::vector<oci::SparsePiece> pieces;
    for (size_t count = 1;; ++count) {
        std::string_view part = hostile::take(input, oci::tar_block);
        block.replace(0, part.size(), part);
        bool more = oci::decode_sparse_block(reinterpret_cast<const uint8_t*>(block.data()), pieces);
        check_pieces(pieces, 21 * count);
        if (!more || input.empty()) return;
    }
}

void run_pax(std::string_view input, bool global) {
    oci::PaxFields fields;
    oci::decode_pax(input, global, fields);
    check_pieces(fields.pieces, input.size() / 2);
    must(!global || (!fields.path && !fields.link && !fields.size && !fields.sparse_name && fields.xattrs.empty() &&
                     fields.pieces.empty()),
         "a global header names, sizes or marks all files");
    for (const auto& path : {fields.path, fields.link, fields.sparse_name})
        must(!path || path->find('\0') == path->npos, "a path has a NUL in it");
    if (fields.size) must(*fields.size <= oci::tar_number_limit, "a size is out of range");
    // The same once more changes nothing but the pieces that are added up.
    oci::PaxFields twice = fields;
    oci::decode_pax(input, global, twice);
    must(twice.path == fields.path && twice.size == fields.size && twice.mtime == fields.mtime &&
             twice.xattrs == fields.xattrs,
         "records that come twice say something else");
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 4;
    hostile::refusing([&] {
        if (which == 0) {
            std::string block(input.substr(0, oci::tar_block));
            block.resize(oci::tar_block);
            run_header(block);
        }
        if (which == 1) run_blocks(input);
        if (which >= 2) run_pax(input, which == 3);
    });
}

const hostile::Registration registration("tar_header", run);

}  // namespace
