#include "runtime/oci/layer/tar_header.hh"

#include <algorithm>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

constexpr uint32_t nobody = 65534;

std::string_view field(const uint8_t* block, size_t offset, size_t length) {
    return {reinterpret_cast<const char*>(block) + offset, length};
}

std::string text_field(const uint8_t* block, size_t offset, size_t length) {
    std::string_view bytes = field(block, offset, length);
    return std::string(bytes.substr(0, bytes.find('\0')));
}

[[noreturn]] void refuse_number(const char* what, const char* why) {
    throw Error(cat("the ", what, " in a header ", why));
}

/// GNU's form for numbers that do not fit in octal digits: the top bit marks it, the rest is a big-endian two's
/// complement number.
int64_t binary_number(std::string_view bytes, const char* what) {
    auto byte_at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
    bool negative = (byte_at(0) & 0x40) != 0;
    uint64_t value = negative ? ~0ULL : 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
        uint8_t byte = i == 0 ? static_cast<uint8_t>(negative ? byte_at(0) | 0x80 : byte_at(0) & 0x7F) : byte_at(i);
        if (i + 8 < bytes.size()) {
            if (byte != (negative ? 0xFF : 0)) refuse_number(what, "is too large");
            continue;
        }
        value = value << 8 | byte;
    }
    auto number = static_cast<int64_t>(value);
    if ((number < 0) != negative) refuse_number(what, "is too large");
    return number;
}

/// Digits between blanks, up to a NUL; nothing at all is zero. No value for anything else.
std::optional<int64_t> octal_digits(std::string_view bytes) {
    size_t end = bytes.find('\0');
    if (end != std::string_view::npos) bytes = bytes.substr(0, end);
    while (!bytes.empty() && bytes.front() == ' ') bytes.remove_prefix(1);
    while (!bytes.empty() && bytes.back() == ' ') bytes.remove_suffix(1);
    int64_t value = 0;  // 12 digits at most: it cannot overflow
    for (char c : bytes) {
        if (c < '0' || c > '7') return std::nullopt;
        value = value * 8 + (c - '0');
    }
    return value;
}

int64_t number_field(std::string_view bytes, const char* what) {
    if ((static_cast<uint8_t>(bytes[0]) & 0x80) != 0) return binary_number(bytes, what);
    auto value = octal_digits(bytes);
    if (!value) refuse_number(what, "is not an octal number");
    return *value;
}

uint64_t size_field(std::string_view bytes, const char* what) {
    int64_t value = number_field(bytes, what);
    if (value < 0) refuse_number(what, "is negative");
    if (static_cast<uint64_t>(value) > tar_number_limit) refuse_number(what, "is absurdly large");
    return static_cast<uint64_t>(value);
}

/// Ids that no Linux knows belong to nobody: files are served as the caller's in any case.
uint32_t id_of(int64_t value) {
    return value >= 0 && value <= UINT32_MAX ? static_cast<uint32_t>(value) : nobody;
}

/// Decodes pairs of 12-byte numbers; an empty pair ends the list.
void decode_pieces(const uint8_t* at, size_t count, std::vector<SparsePiece>& pieces) {
    for (size_t i = 0; i < count && at[i * 24] != 0; ++i)
        pieces.push_back({size_field(field(at, i * 24, 12), "offset of a sparse piece"),
                          size_field(field(at, i * 24 + 12, 12), "length of a sparse piece")});
}

/// Whether a field of a GNU header can be what GNU tar writes there for a time.
bool is_time(std::string_view bytes) {
    return (static_cast<uint8_t>(bytes[0]) & 0x80) != 0 || octal_digits(bytes).has_value();
}

/// Go before 1.8 had POSIX's prefix in GNU's headers too (golang.org/issue/12594), where GNU tar has two times. Its
/// readers since then take ASCII that is no number for a prefix; so do docker and podman, which read by it.
std::string prefix_of_old_go(const uint8_t* block) {
    if (field(block, 257, 8) != std::string_view("ustar  \0", 8) || block[156] == 'S') return {};
    if (is_time(field(block, 345, 12)) && is_time(field(block, 357, 12))) return {};
    std::string text = text_field(block, 345, 155);
    bool is_ascii = std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
    return is_ascii ? text : std::string();
}

/// The directory part of long names. POSIX headers have it, star's a shorter one before its times, and GNU's none.
std::string prefix_of(const uint8_t* block) {
    if (field(block, 257, 6) != std::string_view("ustar\0", 6)) return prefix_of_old_go(block);
    bool is_star = field(block, 508, 4) == std::string_view("tar\0", 4);
    return text_field(block, 345, is_star ? 131 : 155);
}

uint64_t pax_number(std::string_view value, std::string_view key) {
    uint64_t out = 0;
    if (!parse_number(value, tar_number_limit, out))
        throw Error(cat("the PAX record ", printable(key), " is no valid number: ", printable(value, 40)));
    return out;
}

/// "[-]seconds[.fraction]", rounded down.
int64_t pax_time(std::string_view value) {
    bool negative = value.starts_with('-');
    if (negative) value.remove_prefix(1);
    size_t point = value.find('.');
    auto seconds = static_cast<int64_t>(pax_number(value.substr(0, point), "mtime"));
    bool has_fraction =
        point != std::string_view::npos && value.find_first_not_of('0', point + 1) != std::string_view::npos;
    return negative ? -seconds - (has_fraction ? 1 : 0) : seconds;
}

uint32_t pax_id(std::string_view value, std::string_view key) {
    bool negative = value.starts_with('-');
    auto id = static_cast<int64_t>(pax_number(value.substr(negative ? 1 : 0), key));
    return id_of(negative ? -id : id);
}

std::string pax_path(std::string_view value, std::string_view key) {
    if (value.find('\0') != std::string_view::npos)
        throw Error(cat("the PAX record ", printable(key), " holds a NUL byte: ", printable(value)));
    return std::string(value);
}

std::vector<SparsePiece> sparse_map(std::string_view value) {
    std::vector<SparsePiece> out;
    if (value.empty()) return out;
    std::vector<std::string> numbers = split(value, ',');
    if (numbers.size() % 2 != 0) throw Error("the PAX record GNU.sparse.map has an odd count of numbers");
    for (size_t i = 0; i < numbers.size(); i += 2)
        out.push_back({pax_number(numbers[i], "GNU.sparse.map"), pax_number(numbers[i + 1], "GNU.sparse.map")});
    return out;
}

void apply_sparse_record(std::string_view key, std::string_view value, PaxFields& fields) {
    if (key == "name") fields.sparse_name = pax_path(value, "GNU.sparse.name");
    if (key == "size" || key == "realsize") fields.sparse_size = pax_number(value, "GNU.sparse.size");
    if (key == "major" && pax_number(value, "GNU.sparse.major") > 1)
        throw Error("a sparse file has a format newer than 1.0");
    if (key == "major") fields.sparse_map_in_data = value == "1";
    if (key == "map") fields.pieces = sparse_map(value);
    // Format 0.0 repeats a pair of records for each piece.
    if (key == "offset") fields.pieces.push_back({pax_number(value, "GNU.sparse.offset"), 0});
    if (key == "numbytes") {
        if (fields.pieces.empty()) throw Error("the PAX record GNU.sparse.numbytes comes before its offset");
        fields.pieces.back().length = pax_number(value, "GNU.sparse.numbytes");
    }
    if (key == "map" || key == "offset" || key == "numblocks") fields.sparse_map_given = true;
}

template <typename Value>
void set_or_clear(std::optional<Value>& slot, std::string_view value,
                  Value (*decode)(std::string_view, std::string_view), std::string_view key) {
    if (value.empty())
        slot.reset();  // POSIX: an empty value takes the record back, the header's field counts again
    else
        slot = decode(value, key);
}

void apply_record(std::string_view key, std::string_view value, bool global, PaxFields& fields) {
    constexpr std::string_view xattr_prefix = "SCHILY.xattr.", sparse_prefix = "GNU.sparse.";
    if (global && (key == "path" || key == "linkpath" || key == "size" || key.starts_with(sparse_prefix)))
        throw Error(cat("a global PAX header sets ", printable(key), " for all entries"));
    if (key == "path") return set_or_clear(fields.path, value, pax_path, key);
    if (key == "linkpath") return set_or_clear(fields.link, value, pax_path, key);
    if (key == "size") return set_or_clear(fields.size, value, pax_number, key);
    if (key == "uid") return set_or_clear(fields.uid, value, pax_id, key);
    if (key == "gid") return set_or_clear(fields.gid, value, pax_id, key);
    if (key == "mtime")
        return set_or_clear<int64_t>(
            fields.mtime, value, [](std::string_view text, std::string_view) { return pax_time(text); }, key);
    // One xattr for all entries to come has no honest use, and would let headers pile up in memory.
    if (key.starts_with(xattr_prefix) && !global)
        fields.xattrs[std::string(key.substr(xattr_prefix.size()))] = std::string(value);
    if (key.starts_with(sparse_prefix)) apply_sparse_record(key.substr(sparse_prefix.size()), value, fields);
}

}  // namespace

bool is_zero_block(const uint8_t* block) {
    return std::all_of(block, block + tar_block, [](uint8_t byte) { return byte == 0; });
}

bool checksum_matches(const uint8_t* block) {
    int64_t unsigned_sum = 0, signed_sum = 0;
    for (size_t i = 0; i < tar_block; ++i) {
        uint8_t byte = i >= 148 && i < 156 ? ' ' : block[i];  // the checksum's own field counts as blanks
        unsigned_sum += byte;
        signed_sum += static_cast<int8_t>(byte);
    }
    auto stated = octal_digits(field(block, 148, 8));
    return stated && (*stated == unsigned_sum || *stated == signed_sum);
}

TarHeader decode_header(const uint8_t* block) {
    TarHeader out;
    out.type = static_cast<char>(block[156]);
    out.name = text_field(block, 0, 100);
    out.link = text_field(block, 157, 100);
    if (std::string prefix = prefix_of(block); !prefix.empty()) out.name = cat(prefix, '/', out.name);
    std::string_view size = field(block, 124, 12);
    out.size = size_field(size, "size");
    // Writers of PAX sizes leave zero, or the largest number that fits, in the old field.
    out.size_is_open = out.size == 0 || size.substr(0, 11) == "77777777777";
    out.mode = static_cast<uint32_t>(number_field(field(block, 100, 8), "mode")) & 07777;
    out.uid = id_of(number_field(field(block, 108, 8), "owner"));
    out.gid = id_of(number_field(field(block, 116, 8), "group"));
    out.mtime = number_field(field(block, 136, 12), "time");
    if (out.type == 'S') {
        decode_pieces(block + 386, 4, out.pieces);
        out.more_pieces = block[482] != 0;
        out.real_size = size_field(field(block, 483, 12), "size of a sparse file");
    }
    return out;
}

bool decode_sparse_block(const uint8_t* block, std::vector<SparsePiece>& pieces) {
    decode_pieces(block, 21, pieces);
    return block[504] != 0;
}

void decode_pax(std::string_view records, bool global, PaxFields& fields) {
    // "LENGTH KEY=VALUE\n", where the length counts the whole record, its own digits included.
    while (!records.empty()) {
        size_t blank = records.find(' ');
        uint64_t length = 0;
        if (blank == std::string_view::npos || !parse_number(records.substr(0, blank), records.size(), length) ||
            length < blank + 2 || records[length - 1] != '\n')
            throw Error(cat("a PAX header has a malformed record: ", printable(records, 40)));
        std::string_view record = records.substr(blank + 1, length - blank - 2);
        size_t equals = record.find('=');
        if (equals == std::string_view::npos || equals == 0 ||
            record.substr(0, equals).find('\0') != std::string_view::npos)
            throw Error(cat("a PAX header has a malformed record: ", printable(record, 40)));
        apply_record(record.substr(0, equals), record.substr(equals + 1), global, fields);
        records.remove_prefix(length);
    }
}

}  // namespace berth::oci
