// The tar reader of layers, held to libarchive's reading of the same bytes: both see the same entries, or one of the
// known differences below explains why not.
#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <stdexcept>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/tar.hh"
#include "tests/hostile/tar_target.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using Type = oci::TarEntry::Type;

/// Bytes of a file and their places; zeros count nothing, so that a hole is as good as what it stands for.
struct Content {
    uint64_t sum = 0;

    void add(uint64_t offset, const void* data, size_t size) {
        const auto* bytes = static_cast<const unsigned char*>(data);
        for (size_t i = 0; i < size; ++i) sum += bytes[i] * ((offset + i + 1) * 0x9E3779B97F4A7C15ULL | 1);
    }
};

struct Item {
    oci::TarEntry entry;
    Content content;
    bool is_complete = false;
};

struct Reading {
    std::vector<Item> items;
    std::string refusal;  ///< empty: read to its end
};

class Recorder : public oci::TarSink {
  public:
    explicit Recorder(std::vector<Item>& items) : items_(items) {}
    void entry(const oci::TarEntry& entry) override {
        items_.push_back({entry, {}, false});
        at_ = 0;
    }
    void data(std::string_view bytes) override {
        items_.back().content.add(at_, bytes.data(), bytes.size());
        at_ += bytes.size();
    }
    void zeros(uint64_t size) override { at_ += size; }
    void end_entry() override { items_.back().is_complete = true; }

  private:
    std::vector<Item>& items_;
    uint64_t at_ = 0;
};

Reading read_by_us(const std::string& tar) {
    Reading out;
    Recorder recorder(out.items);
    oci::TarParser parser(recorder);
    try {
        parser.feed(tar);
        parser.finish();
    } catch (const Error& error) {
        out.refusal = error.what();
    }
    return out;
}

std::string text_of(const char* text) {
    return text == nullptr ? "" : text;
}

Type type_of(archive_entry* entry) {
    if (archive_entry_hardlink(entry) != nullptr) return Type::hardlink;
    switch (archive_entry_filetype(entry)) {
        case AE_IFLNK:
            return Type::symlink;
        case AE_IFCHR:
            return Type::character;
        case AE_IFBLK:
            return Type::block;
        case AE_IFDIR:
            return Type::directory;
        case AE_IFIFO:
            return Type::fifo;
        default:
            return Type::file;
    }
}

Item item_of(archive_entry* entry) {
    Item out;
    out.entry.type = type_of(entry);
    out.entry.name = text_of(archive_entry_pathname(entry));
    out.entry.link = text_of(out.entry.type == Type::hardlink  ? archive_entry_hardlink(entry)
                             : out.entry.type == Type::symlink ? archive_entry_symlink(entry)
                                                               : nullptr);
    out.entry.size = static_cast<uint64_t>(archive_entry_size(entry));
    out.entry.mode = archive_entry_perm(entry) & 07777;
    // As ours: ids that no Linux knows are nobody's.
    auto id = [](int64_t value) { return value >= 0 && value <= UINT32_MAX ? static_cast<uint32_t>(value) : 65534; };
    out.entry.uid = id(archive_entry_uid(entry));
    out.entry.gid = id(archive_entry_gid(entry));
    out.entry.mtime = archive_entry_mtime(entry);
    archive_entry_xattr_reset(entry);
    const char* name = nullptr;
    const void* value = nullptr;
    size_t size = 0;
    // The last one given comes first.
    while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK)
        out.entry.xattrs.emplace(name, std::string(static_cast<const char*>(value), size));
    return out;
}

/// A warning counts as a refusal but for those of the locale, which has no other characters than ASCII here: EILSEQ, or
/// EFTYPE of newer kernel headers.
bool is_fine(archive* reader, int result) {
    int problem = archive_errno(reader);
    return result == ARCHIVE_OK || (result == ARCHIVE_WARN && (problem == EILSEQ || problem == 134));
}

Reading read_by_libarchive(const std::string& tar) {
    std::unique_ptr<archive, int (*)(archive*)> reader(archive_read_new(), archive_read_free);
    archive_read_support_format_tar(reader.get());
    Reading out;
    int result = archive_read_open_memory(reader.get(), tar.data(), tar.size());
    archive_entry* entry = nullptr;
    while (is_fine(reader.get(), result)) {
        result = archive_read_next_header(reader.get(), &entry);
        if (!is_fine(reader.get(), result)) break;
        out.items.push_back(item_of(entry));
        const void* data = nullptr;
        size_t size = 0;
        la_int64_t offset = 0;
        while ((result = archive_read_data_block(reader.get(), &data, &size, &offset)) == ARCHIVE_OK)
            out.items.back().content.add(static_cast<uint64_t>(offset), data, size);
        if (result != ARCHIVE_EOF) break;
        out.items.back().is_complete = true;
        result = ARCHIVE_OK;
    }
    if (result != ARCHIVE_EOF) {
        const char* text = archive_error_string(reader.get());
        out.refusal = text == nullptr ? "no reason" : text;
    }
    return out;
}

struct Known {
    std::string_view text;  ///< in the line of the refusal
    const char* why;
};

/// What we refuse and libarchive reads.
constexpr Known refused_by_us[] = {
    {"is not supported", "types that are not POSIX' or GNU's: libarchive takes them for files, or skips them"},
    {"is not an octal number", "libarchive takes the digits before what is none"},
    {"is too large", "libarchive takes the largest number instead"},
    {"is absurdly large", "a size past 2^62"},
    {"is negative", "the size of a volume's label, which libarchive skips without a look"},
    {"is no valid number", "libarchive takes the digits of a PAX record before what is none"},
    {"goes on after a zero block", "libarchive ends at the first one"},
    {"long name is empty", "libarchive takes the empty name"},
    {"holds a NUL byte", "libarchive ends the name there"},
    {"has a malformed record", "libarchive skips what it does not know before it reads the value"},
    {"a global PAX header sets", "libarchive ignores global headers"},
    {"and its PAX record", "a size in the header that is not that of the PAX record: libarchive takes the latter"},
    {"ends after the extended header", "an end of the archive where an entry should be"},
    {"sparse", "maps out of order, out of bounds, of another size than the data: libarchive reads what it can"},
};

/// What libarchive refuses and we read.
constexpr Known refused_by_libarchive[] = {
    {"Truncated input file", "an archive that ends in the padding behind an entry: ours, as Go, misses nothing"},
    {"Unrecognized archive format", "an archive with nothing in it, or a first header with a field that nobody reads"},
    {"malformed pax", "two PAX headers before one entry, which libarchive keeps in one place"},
    {"Damaged tar archive", "a checksum with something else than digits behind its end"},
    {"Non-regular file cannot be sparse", "a sparse file whose type is an older name of a file's"},
    {"Redundant '", "two headers of one kind before one entry, from 3.8 on: the last one counts"},
    {"Unsupported pax global", "global headers, from 3.8 on: ours, as Go, ignores what it does not refuse"},
};

template <size_t N>
bool is_known(const Known (&list)[N], const std::string& refusal) {
    return std::any_of(std::begin(list), std::end(list),
                       [&](const Known& known) { return refusal.find(known.text) != std::string::npos; });
}

/// Headers that the two take for different things, so that all behind them differs. An archive with one is not
/// compared.
bool has_other_meaning(std::string_view block) {
    std::string_view magic = block.substr(257, 8);
    bool is_posix = magic.substr(0, 6) == std::string_view("ustar\0", 6);
    bool is_gnu = magic == std::string_view("ustar  \0", 8);
    bool has_map = block[386] != 0, has_real_size = block[483] != 0, has_more_blocks = block[482] != 0;
    // libarchive: every magic that begins so has the prefix of POSIX. Ours, as Go: POSIX' own alone.
    if (magic.substr(0, 5) == "ustar" && !is_posix && !is_gnu) return true;
    // The prefix of star's headers is shorter, since times follow it: libarchive does not know them.
    if (is_posix && block.substr(508) == std::string_view("tar\0", 4)) return true;
    // Ours, as Go: what is no time in a GNU header can be a prefix.
    constexpr std::string_view of_times("01234567 \0", 10);
    if (is_gnu && block.substr(345, 24).find_first_not_of(of_times) != block.npos) return true;
    // libarchive: a sparse map counts in GNU headers, of whatever type, and goes on only when it has begun. Ours, as
    // GNU tar: it counts in type S, whatever the magic.
    return block[156] == 'S' ? !is_gnu || (!has_map && has_more_blocks) : is_gnu && (has_map || has_real_size);
}

/// What GNU tar writes into the PAX records of a sparse file, in formats 0.0, 0.1 and 1.0, is all there or nothing of
/// it. Otherwise libarchive takes some of it by itself; ours, as Go, ignores it or refuses it.
bool has_odd_sparse_records(std::string_view records) {
    constexpr std::string_view prefix = "GNU.sparse.";
    std::set<std::string> keys;
    for (size_t at = records.find(prefix); at != records.npos; at = records.find(prefix, at + 1)) {
        std::string_view rest = records.substr(at + prefix.size());
        std::string_view key = rest.substr(0, rest.find('='));
        // Of the version the numbers count too.
        keys.emplace(key == "major" || key == "minor" ? rest.substr(0, rest.find('\n')) : key);
    }
    using Keys = std::set<std::string>;
    return !keys.empty() && keys != Keys{"size", "numblocks", "offset", "numbytes"} &&
           keys != Keys{"size", "numblocks", "name", "map"} && keys != Keys{"major=1", "minor=0", "name", "realsize"};
}

bool holds(std::string_view text, std::string_view part) {
    return text.find(part) != text.npos;
}

/// An empty value takes a record back, by POSIX: ours, as Go. libarchive makes a zero of it.
bool has_empty_number(std::string_view records) {
    return holds(records, " size=\n") || holds(records, " uid=\n") || holds(records, " gid=\n") ||
           holds(records, " mtime=\n");
}

/// From 3.8 on libarchive makes a hard link of whatever has a link's name by an extended header. Ours, as Go, leaves
/// that to links. `rest`: from that header on.
bool makes_link_of_any(std::string_view rest) {
    constexpr size_t type = 2 * oci::tar_block + 156;
    bool is_link = rest.size() > type && (rest[type] == '1' || rest[type] == '2');
    return archive_version_number() >= 3'008'000 && !is_link;
}

bool has_other_meaning_somewhere(std::string_view tar) {
    bool has_gnu_name = false, has_pax_name = false;
    for (size_t at = 0; at + oci::tar_block <= tar.size(); at += oci::tar_block) {
        std::string_view block = tar.substr(at, oci::tar_block);
        if (has_other_meaning(block)) return true;
        has_gnu_name |= block[156] == 'L' || block[156] == 'K';
        if (block[156] == 'K' && makes_link_of_any(tar.substr(at))) return true;
        if (block[156] != 'x') continue;
        // The body may be shorter or longer than what is looked through.
        std::string_view records = tar.substr(at + oci::tar_block, oci::tar_block);
        if (has_odd_sparse_records(records) || has_empty_number(records)) return true;
        if (holds(records, "linkpath=") && makes_link_of_any(tar.substr(at))) return true;
        has_pax_name |= holds(records, "path=");
    }
    // Of two names for one entry libarchive takes the one that comes first. Ours, as Go: GNU's.
    return has_gnu_name && has_pax_name;
}

bool has_type(std::string_view tar, char type) {
    for (size_t at = 0; at + oci::tar_block <= tar.size(); at += oci::tar_block)
        if (tar[at + 156] == type) return true;
    return false;
}

bool is_link(const oci::TarEntry& entry) {
    return entry.type == Type::hardlink || entry.type == Type::symlink;
}

/// A prefix that ends with a slash: libarchive adds no second one, we do, as Go.
std::string without_double_slashes(std::string name) {
    auto both = [](char a, char b) { return a == '/' && b == '/'; };
    name.erase(std::unique(name.begin(), name.end(), both), name.end());
    return name;
}

/// libarchive knows more forms of PAX records for xattrs than ours and Go; ours has no use for what they hold. It drops
/// an empty name, which ours does when it writes the layer.
bool have_same_xattrs(const oci::TarEntry& ours, const oci::TarEntry& theirs, std::string_view tar) {
    if (holds(tar, "LIBARCHIVE.xattr.") || holds(tar, "RHT.security.selinux")) return true;
    auto named = ours.xattrs;
    named.erase("");
    return named == theirs.xattrs;
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](unsigned char byte) { return byte < 0x80; });
}

/// libarchive cuts the fraction of a negative time off; ours, as Go and GNU tar, rounds down.
bool have_same_time(const oci::TarEntry& ours, const oci::TarEntry& theirs) {
    return ours.mtime == theirs.mtime || (theirs.mtime <= 0 && ours.mtime == theirs.mtime - 1);
}

/// The field that differs without an explanation; empty when there is none.
std::string difference(const Item& ours, const Item& theirs, std::string_view tar) {
    // Global PAX headers: libarchive ignores them; ours, as GNU tar, takes owner and time from them.
    bool has_global = has_type(tar, 'g');
    const oci::TarEntry &a = ours.entry, &b = theirs.entry;
    if (a.name != b.name && without_double_slashes(a.name) != without_double_slashes(b.name))
        return cat("name ", printable(a.name), " | ", printable(b.name));
    if (a.type != b.type) return cat("type ", static_cast<int>(a.type), " | ", static_cast<int>(b.type));
    if (is_link(a) && a.link != b.link) return cat("link ", printable(a.link), " | ", printable(b.link));
    if (a.type == Type::file && a.size != b.size) return cat("size ", a.size, " | ", b.size);
    if (a.mode != b.mode) return cat("mode ", a.mode, " | ", b.mode);
    if (!has_global && (a.uid != b.uid || a.gid != b.gid))
        return cat("ids ", a.uid, ":", a.gid, " | ", b.uid, ":", b.gid);
    if (!has_global && !have_same_time(a, b)) return cat("mtime ", a.mtime, " | ", b.mtime);
    if (!have_same_xattrs(a, b, tar)) return cat("xattrs ", a.xattrs.size(), " | ", b.xattrs.size());
    if (a.type == Type::file && ours.is_complete && theirs.is_complete && ours.content.sum != theirs.content.sum)
        return "content";
    return {};
}

void compare(const std::string& tar) {
    if (has_other_meaning_somewhere(tar)) return;
    Reading ours = read_by_us(tar), theirs = read_by_libarchive(tar);
    size_t both = std::min(ours.items.size(), theirs.items.size());
    for (size_t i = 0; i < both; ++i) {
        const Item &a = ours.items[i], &b = theirs.items[i];
        // A hard link to nothing: libarchive makes a file of it, ours is refused when it is to be written.
        if (a.entry.type == Type::hardlink && a.entry.link.empty()) return;
        // Where a link leads, told by GNU's long name or a PAX record, counts to libarchive only when the header names
        // something too. A hard link without it is a file.
        bool is_told_before = has_type(tar, 'K') || has_type(tar, 'x');
        if (is_link(a.entry) && b.entry.link.empty() && is_told_before) return;
        // A slash behind the name makes a directory of a file. libarchive looks for it in the name as the locale
        // has it, which has only ASCII characters here.
        if (a.entry.type == Type::directory && b.entry.type == Type::file && !is_ascii(a.entry.name)) return;
        // A sparse file with a slash behind its name: to libarchive it is a directory.
        if (a.entry.type == Type::file && b.entry.type == Type::directory && a.entry.name.ends_with('/')) return;
        if (std::string field = difference(a, b, tar); !field.empty())
            throw std::logic_error(cat("entry ", i, " ", printable(a.entry.name), ": ", field));
        // What is no file has data to libarchive. To us it has none, as to GNU tar and Go, whatever its size says.
        if (b.entry.type != Type::file && b.entry.size > 0) return;
    }
    auto state = [](const Reading& reading) {
        return cat(reading.items.size(), " entries, ", reading.refusal.empty() ? "read to the end" : reading.refusal);
    };
    bool we_stopped = !ours.refusal.empty() && (ours.items.size() < theirs.items.size() || theirs.refusal.empty());
    bool they_stopped = !theirs.refusal.empty() && (theirs.items.size() < ours.items.size() || ours.refusal.empty());
    bool same_end = ours.items.size() == theirs.items.size() && ours.refusal.empty() == theirs.refusal.empty();
    if (same_end || (we_stopped && is_known(refused_by_us, ours.refusal)) ||
        (they_stopped && is_known(refused_by_libarchive, theirs.refusal)))
        return;
    throw std::logic_error(cat("ours: ", state(ours), " | libarchive: ", state(theirs)));
}

void run(std::string_view input) {
    compare(berth::hostile::with_checksums(input));
}

const hostile::Registration registration("tar_differs", run);

}  // namespace
