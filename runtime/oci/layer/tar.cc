#include "runtime/oci/layer/tar.hh"

#include <algorithm>
#include <cstring>
#include <optional>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

constexpr uint64_t extension_limit = 1 << 20;
constexpr size_t piece_limit = 1'000'000;

std::optional<TarEntry::Type> type_of(char flag) {
    switch (flag) {
        case '\0':
        case '0':
        case '7':
        case 'S':
            return TarEntry::Type::file;
        case '1':
            return TarEntry::Type::hardlink;
        case '2':
            return TarEntry::Type::symlink;
        case '3':
            return TarEntry::Type::character;
        case '4':
            return TarEntry::Type::block;
        case '5':
            return TarEntry::Type::directory;
        case '6':
            return TarEntry::Type::fifo;
        default:
            return std::nullopt;
    }
}

/// The text of a GNU long name: padded with NULs, none inside.
std::string long_text(std::string_view data) {
    std::string_view text = data.substr(0, data.find('\0'));
    if (data.find_first_not_of('\0', text.size()) != std::string_view::npos)
        throw Error("a GNU long name holds a NUL byte");
    if (text.empty()) throw Error("a GNU long name is empty");
    return std::string(text);
}

}  // namespace

void TarParser::refuse(const std::string& why) const {
    throw Error(cat("the tar entry ", printable(entry_.name.empty() ? header_.name : entry_.name), ": ", why));
}

void TarParser::feed(std::string_view data) {
    while (!data.empty()) {
        bool is_of_file = state_ == State::data;
        size_t part = step(data);
        if (!is_of_file) sink_.raw(data.substr(0, part));
        data.remove_prefix(part);
    }
}

/// Handles what the state wants of the next bytes; how many that were (at least one).
size_t TarParser::step(std::string_view data) {
    size_t part = 0;
    switch (state_) {
        case State::end:
            return data.size();
        case State::header:
        case State::sparse_block:
        case State::sparse_map:
            return take_block(data);
        case State::padding:
            part = std::min<uint64_t>(data.size(), padding_);
            if ((padding_ -= part) == 0) state_ = State::header;
            return part;
        case State::extension:
            part = std::min<uint64_t>(data.size(), stored_);
            extension_ += data.substr(0, part);
            if ((stored_ -= part) == 0) finish_extension();
            return part;
        case State::data:
            part = std::min<uint64_t>(data.size(), pieces_[piece_].offset + pieces_[piece_].length - position_);
            sink_.data(data.substr(0, part));
            position_ += part;
            next_piece();
            return part;
    }
    return data.size();
}

size_t TarParser::take_block(std::string_view data) {
    if (filled_ == 0 && data.size() >= tar_block) {
        handle_block(reinterpret_cast<const uint8_t*>(data.data()));
        return tar_block;
    }
    size_t part = std::min(data.size(), tar_block - filled_);
    std::memcpy(block_ + filled_, data.data(), part);
    if ((filled_ += part) == tar_block) {
        filled_ = 0;
        handle_block(block_);
    }
    return part;
}

void TarParser::handle_block(const uint8_t* block) {
    if (state_ == State::header) return is_zero_block(block) ? handle_zero_block() : handle_header(block);
    if (state_ == State::sparse_map) return handle_sparse_map(block);
    header_.more_pieces = decode_sparse_block(block, header_.pieces);
    if (header_.pieces.size() > piece_limit) refuse("its sparse map is too long");
    if (!header_.more_pieces) begin_entry();
}

void TarParser::handle_zero_block() {
    if (extended_) throw Error("the tar archive ends after the extended header of an entry, without the entry");
    if (zero_block_seen_) state_ = State::end;
    zero_block_seen_ = true;
}

void TarParser::handle_header(const uint8_t* block) {
    if (zero_block_seen_) throw Error("the tar archive goes on after a zero block: tools disagree on where it ends");
    if (!checksum_matches(block))
        throw Error("the tar archive is damaged, or no tar archive: the checksum of a header is wrong");
    entry_ = {};
    header_ = decode_header(block);
    if (std::strchr("xgLK", header_.type) != nullptr && header_.type != 0) return begin_extension();
    if (header_.more_pieces)
        state_ = State::sparse_block;
    else
        begin_entry();
}

void TarParser::begin_extension() {
    if (header_.size > extension_limit)
        refuse(cat("its extended header has ", header_.size, " bytes, the limit is ", extension_limit));
    extension_type_ = header_.type;
    extension_.clear();
    stored_ = header_.size;
    padding_ = (tar_block - header_.size % tar_block) % tar_block;
    state_ = State::extension;
    if (stored_ == 0) finish_extension();
}

void TarParser::finish_extension() {
    state_ = padding_ > 0 ? State::padding : State::header;
    switch (extension_type_) {
        case 'g':
            return decode_pax(extension_, true, global_);
        case 'x':
            pax_ = {};
            decode_pax(extension_, false, pax_);
            break;
        case 'L':
            long_name_ = long_text(extension_);
            break;
        case 'K':
            long_link_ = long_text(extension_);
            break;
    }
    extended_ = true;
    if (pax_.pieces.size() > piece_limit) refuse("its sparse map is too long");
}

/// The header and all that extends it are complete: hands the entry out, or first reads the sparse map at the start of
/// its data.
void TarParser::begin_entry() {
    auto type = type_of(header_.type);
    if (!type) refuse(cat("its type '", printable(std::string(1, header_.type)), "' is not supported"));
    entry_.type = *type;
    entry_.name = header_.name;
    entry_.link = header_.link;
    apply_pax();
    if (entry_.type == TarEntry::Type::file && header_.type != 'S' && entry_.name.ends_with('/'))
        entry_.type = TarEntry::Type::directory;  // V7 had no type for it
    // Only files have data: the size of a directory was a hint once, and that of a hard link repeats its target's.
    stored_ = entry_.type == TarEntry::Type::file ? header_.size : 0;
    padding_ = (tar_block - stored_ % tar_block) % tar_block;
    entry_.size = stored_;
    if (pax_.sparse_map_in_data && entry_.type == TarEntry::Type::file) {
        map_numbers_.clear();
        map_number_ = 0;
        map_digits_ = false;
        state_ = State::sparse_map;
        return;
    }
    set_pieces();
    begin_data();
}

void TarParser::apply_pax() {
    if (pax_.path) entry_.name = *pax_.path;
    if (pax_.link) entry_.link = *pax_.link;
    if (pax_.sparse_name) entry_.name = *pax_.sparse_name;
    if (!long_name_.empty()) entry_.name = long_name_;
    if (!long_link_.empty()) entry_.link = long_link_;
    entry_.mode = header_.mode;
    entry_.uid = pax_.uid.value_or(global_.uid.value_or(header_.uid));
    entry_.gid = pax_.gid.value_or(global_.gid.value_or(header_.gid));
    entry_.mtime = pax_.mtime.value_or(global_.mtime.value_or(header_.mtime));
    entry_.xattrs = std::move(pax_.xattrs);
    if (!pax_.size) return;
    // PAX has the last word, but a header that plainly says something else is an attempt to show two tools two
    // archives.
    if (!header_.size_is_open && *pax_.size != header_.size)
        refuse(cat("its header says ", header_.size, " bytes and its PAX record ", *pax_.size));
    header_.size = *pax_.size;
}

/// Decides which parts of the file are stored, from whichever sparse format the entry uses.
void TarParser::set_pieces() {
    bool is_file = entry_.type == TarEntry::Type::file;
    pieces_ = {{0, stored_}};
    if (header_.type == 'S') {
        pieces_ = std::move(header_.pieces);
        entry_.size = header_.real_size;
    } else if (is_file && (pax_.sparse_map_in_data || pax_.sparse_map_given)) {
        if (!pax_.sparse_size) refuse("its sparse map comes without the file's size");
        pieces_ = std::move(pax_.pieces);
        entry_.size = *pax_.sparse_size;
    }
    uint64_t end = 0, sum = 0;
    for (const SparsePiece& piece : pieces_) {
        if (piece.offset < end || piece.offset > entry_.size || piece.length > entry_.size - piece.offset)
            refuse("its sparse map is out of order or out of bounds");
        end = piece.offset + piece.length;
        sum += piece.length;
    }
    if (sum != stored_) refuse("its sparse map does not fit the data stored");
}

/// Format 1.0: decimal numbers, one a line, in whole blocks before the data: the count of pieces, then offset and
/// length of each.
void TarParser::handle_sparse_map(const uint8_t* block) {
    if (stored_ < tar_block) refuse("its sparse map is cut off");
    stored_ -= tar_block;
    auto wanted = [&] { return map_numbers_.empty() ? 1 : 1 + 2 * map_numbers_[0]; };
    for (size_t i = 0; i < tar_block && map_numbers_.size() < wanted(); ++i) {
        uint8_t c = block[i];
        if (c >= '0' && c <= '9') {
            map_number_ = map_number_ * 10 + (c - '0');
            if (map_number_ > tar_number_limit) refuse("a number in its sparse map is absurdly large");
            map_digits_ = true;
        } else if (c == '\n' && map_digits_) {
            if (map_numbers_.empty() && map_number_ > piece_limit) refuse("its sparse map is too long");
            map_numbers_.push_back(map_number_);
            map_number_ = 0;
            map_digits_ = false;
        } else {
            refuse("its sparse map is malformed");
        }
    }
    if (map_numbers_.size() < wanted()) return;
    pax_.pieces.clear();
    for (size_t i = 1; i < map_numbers_.size(); i += 2) pax_.pieces.push_back({map_numbers_[i], map_numbers_[i + 1]});
    set_pieces();
    begin_data();
}

void TarParser::begin_data() {
    sink_.entry(entry_);
    pax_ = {};
    long_name_.clear();
    long_link_.clear();
    extended_ = false;
    piece_ = 0;
    position_ = 0;
    if (entry_.type == TarEntry::Type::file)
        next_piece();
    else
        finish_entry();
}

/// Fills holes and steps over finished pieces up to the next stored byte, or to the end of the entry.
void TarParser::next_piece() {
    state_ = State::data;
    for (; piece_ < pieces_.size(); ++piece_) {
        const SparsePiece& piece = pieces_[piece_];
        if (position_ < piece.offset) sink_.zeros(piece.offset - position_);
        position_ = std::max(position_, piece.offset);
        if (position_ < piece.offset + piece.length) return;
    }
    if (position_ < entry_.size) sink_.zeros(entry_.size - position_);
    finish_entry();
}

void TarParser::finish_entry() {
    sink_.end_entry();
    state_ = padding_ > 0 ? State::padding : State::header;
}

void TarParser::finish() {
    if (state_ == State::end || (state_ == State::header && filled_ == 0 && !extended_)) return;
    if (zero_block_seen_) return;  // part of the second zero block: nothing is missing
    // `umoci insert` does not close its archives, so that one can end with the last byte of a file. Go's reader, which
    // is docker's, takes that for the end, too.
    if (state_ == State::padding && !extended_) return;
    throw Error(cat("the tar archive is cut off",
                    entry_.name.empty() ? "" : cat(" in or after the entry ", printable(entry_.name))));
}

}  // namespace berth::oci
