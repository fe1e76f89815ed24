// Tar archives as folders. libarchive finds the entries; what their names mean is settled here, in memory.
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/base/error.hh"
#include "runtime/base/interrupts.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/tar_header.hh"
#include "runtime/oci/limits.hh"
#include "runtime/oci/manifest.hh"
#include "runtime/oci/packing.hh"
#include "runtime/oci/source/archive_reader.hh"
#include "runtime/oci/source/files.hh"

namespace berth::oci {

namespace {

using nlohmann::json;

constexpr unsigned link_limit = 8;
constexpr size_t names_limit = 64 << 20;  // bytes, of all names and link targets together

/// `path` without `.` and empty parts, `..` resolved; empty for what leaves the archive.
std::string normalised(std::string_view path) {
    std::vector<std::string> parts;
    for (std::string& part : split(path, '/')) {
        if (part.empty() || part == ".") continue;
        if (part != "..") {
            parts.push_back(std::move(part));
        } else if (parts.empty()) {
            return {};
        } else {
            parts.pop_back();
        }
    }
    std::string out;
    for (const std::string& part : parts) out += cat(out.empty() ? "" : "/", part);
    return out;
}

/// libarchive has no name for what no locale can hold.
std::string text_of(const char* text) { return text == nullptr ? "" : text; }

class Archive : public Files {
  public:
    Archive(std::shared_ptr<const Fd> file, std::string what, const Advance& advance)
        : file_(std::move(file)), what_(std::move(what)) {
        naming(what_, "reading the archive", [&] { scan(advance); });
    }

    std::optional<Piece> find(const std::string& path) const override {
        std::string name = normalised(path);
        for (unsigned hops = 0; hops <= link_limit; ++hops) {
            auto found = entries_.find(name);
            if (found == entries_.end()) return std::nullopt;
            const Entry& entry = found->second;
            if (entry.link.empty()) return Piece{file_, entry.offset, entry.size, path, entry.stored};
            name = found->second.link;
        }
        throw Error(cat(what_, ": ", printable(path), " is a link of links in the archive; refused"));
    }

    std::optional<Piece> root_file_system() const override {
        if (!is_root_file_system_) return std::nullopt;
        return Piece{file_, 0, end_, "the archive"};
    }
    std::string first_whiteout() const override { return first_whiteout_; }

  private:
    struct Entry {
        uint64_t offset = 0;
        uint64_t size = 0;
        std::string link;  ///< normalised
        std::shared_ptr<const std::vector<SparsePiece>> stored = {};  ///< as in a Piece
    };

    void scan(const Advance& advance);
    archive_entry* next(ArchiveReader& reader) const;
    void add(archive_entry* entry, uint64_t at);
    void add_file(archive_entry* entry, uint64_t at, const std::string& name);
    std::vector<SparsePiece> stored_pieces(archive_entry* entry, uint64_t size, const std::string& written) const;
    void note_name(const std::string& name, bool is_file);
    bool decide() const;
    bool is_saved_image() const;
    bool is_image_layout() const;
    std::optional<json> document(const std::string& name) const;
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(cat(what_, ": the archive ", why, "; refused"));
    }

    std::shared_ptr<const Fd> file_;
    std::string what_;
    uint64_t at_ = 0, end_ = 0;  // the last header; the size
    size_t count_ = 0, name_bytes_ = 0;
    bool has_root_ = false;  // a directory of Linux systems is at the top
    bool has_parts_ = false;  // names at the top that archives of images have, whole or not
    bool is_root_file_system_ = false;
    std::string first_whiteout_;  // the first name that would be a whiteout in a layer
    std::unordered_map<std::string, Entry> entries_;
    std::optional<uint64_t> expected_;  // where the next header is, after a file
};

void Archive::scan(const Advance& advance) {
    end_ = static_cast<uint64_t>(sys::stat_of(file_->get(), what_).st_size);
    ArchiveReader reader(file_->get(), ArchiveReader::As::tar, what_);
    while (archive_entry* entry = next(reader)) {
        ++count_;
        uint64_t header = reader.header_position();
        if (advance) advance(header - at_);
        at_ = header;
        if (expected_ && header != *expected_) refuse(cat("is damaged before byte ", header));
        // Of a root file system nothing is looked up.
        if ((count_ > archive_entry_limit || name_bytes_ > names_limit) && has_root_) {
            is_root_file_system_ = true;
            return;
        }
        if (count_ > archive_entry_limit) refuse(cat("has more than ", archive_entry_limit, " entries"));
        if (name_bytes_ > names_limit) refuse(cat("has names of more than ", human_bytes(names_limit)));
        add(entry, reader.data_position());
    }
    if (advance) advance(reader.header_position() - at_);
    if (count_ == 0) refuse("is no tar file");
    is_root_file_system_ = decide();
}

/// Directories that the Filesystem Hierarchy Standard has at the top. No archive of an image has one there.
bool is_system_directory(std::string_view name) {
    constexpr std::string_view all[] = {"bin",    "boot",  "dev", "etc", "home", "lib",  "lib32",
                                        "lib64",  "libx32", "media", "mnt", "opt", "proc", "root",
                                        "run",    "sbin",  "srv", "sys", "tmp",  "usr",  "var"};
    return std::ranges::find(all, name) != std::end(all);
}

/// What archives of docker save and image layouts have at the top beside manifest.json and oci-layout: files and
/// folders that are digests, and these.
bool is_part_of_image(std::string_view name) {
    if (name == "blobs" || name == "index.json" || name == "repositories") return true;
    return Digest::from_hex(name.substr(0, name.find('.'))).has_value();
}

/// A folder may have no entry of its own, but what lies in it. `is_file`: the name itself can be no folder.
void Archive::note_name(const std::string& name, bool is_file) {
    size_t slash = name.find('/');
    std::string_view top = std::string_view(name).substr(0, slash);
    has_root_ |= (slash != name.npos || !is_file) && is_system_directory(top);
    has_parts_ |= is_part_of_image(top);
    size_t last = name.rfind('/');
    bool is_whiteout = name.compare(last == name.npos ? 0 : last + 1, 4, ".wh.") == 0;
    if (is_whiteout && first_whiteout_.empty()) first_whiteout_ = name;
}

/// The application in a root file system may have a /manifest.json or /oci-layout for its own use, so what is in them
/// decides. An image FROM scratch may have any names: it is a root file system unless it looks like a part of an
/// archive of an image, which is better told than run.
bool Archive::decide() const {
    if (is_saved_image() || is_image_layout()) return false;
    if (has_root_) return true;
    return !has_parts_ && !entries_.contains("manifest.json") && !entries_.contains("oci-layout");
}

std::optional<json> Archive::document(const std::string& name) const {
    auto piece = find(name);
    if (!piece || piece->size > document_limit) return std::nullopt;
    json out = json::parse(read_piece(*piece, document_limit, what_), nullptr, false);
    return out.is_discarded() ? std::nullopt : std::optional(std::move(out));
}

bool Archive::is_saved_image() const {
    auto list = document("manifest.json");
    if (!list || !list->is_array() || list->empty()) return false;
    return std::ranges::all_of(*list, [](const json& image) {
        return image.is_object() && image.contains("Config") && image.contains("Layers");
    });
}

bool Archive::is_image_layout() const {
    auto layout = document("oci-layout");
    return layout && layout->is_object() && layout->contains("imageLayoutVersion") && entries_.contains("index.json");
}

archive_entry* Archive::next(ArchiveReader& reader) const {
    try {
        return reader.next();
    } catch (const SysError&) {
        throw;
    } catch (const Error& error) {
        if (count_ == 0) refuse("is no tar file");
        refuse(cat("is damaged after byte ", at_, ": ", error.what()));
    }
}

/// `at` is where the bytes of the entry begin.
void Archive::add(archive_entry* entry, uint64_t at) {
    expected_.reset();
    std::string written = text_of(archive_entry_pathname(entry)), link;
    if (const char* target = archive_entry_hardlink(entry)) {
        link = target;
    } else if (archive_entry_filetype(entry) == AE_IFLNK) {
        // Relative to the folder that it is in; an absolute one leaves the archive.
        std::string symlink = text_of(archive_entry_symlink(entry));
        size_t slash = written.rfind('/');
        link = symlink.starts_with('/') ? "" : cat(slash == written.npos ? "" : written.substr(0, slash + 1), symlink);
    } else if (archive_entry_filetype(entry) == AE_IFREG) {
        return add_file(entry, at, written);
    } else {
        note_name(normalised(written), false);
        return;
    }
    std::string name = normalised(written), target = normalised(link);
    note_name(name, false);
    if (name.empty() || target.empty()) return;
    name_bytes_ += name.size() + target.size();
    entries_[name] = {.offset = 0, .size = 0, .link = target};
}

void Archive::add_file(archive_entry* entry, uint64_t at, const std::string& written) {
    auto size = static_cast<uint64_t>(archive_entry_size(entry)), stored_size = size;
    std::shared_ptr<const std::vector<SparsePiece>> stored;
    if (archive_entry_sparse_reset(entry) > 0) {
        stored = std::make_shared<const std::vector<SparsePiece>>(stored_pieces(entry, size, written));
        if (size > LayerLimits{}.unpacked_bytes)
            refuse(cat("has a sparse file of more than ", human_bytes(LayerLimits{}.unpacked_bytes), ", ",
                       printable(written)));
        stored_size = 0;
        for (const SparsePiece& piece : *stored) stored_size += piece.length;
        name_bytes_ += stored->size() * sizeof(SparsePiece);
    }
    if (at > end_ || stored_size > end_ - at) refuse(cat("is cut off inside ", printable(written)));
    expected_ = at + (stored_size + tar_block - 1) / tar_block * tar_block;
    std::string name = normalised(written);
    note_name(name, true);
    if (name.empty()) return;
    name_bytes_ += name.size();
    entries_[name] = {.offset = at, .size = size, .link = {}, .stored = std::move(stored)};
}

/// Of a sparse file, whatever form its map has; libarchive has read it.
std::vector<SparsePiece> Archive::stored_pieces(archive_entry* entry, uint64_t size, const std::string& written) const {
    std::vector<SparsePiece> out;
    uint64_t end = 0;
    la_int64_t offset = 0, length = 0;
    while (archive_entry_sparse_next(entry, &offset, &length) == ARCHIVE_OK) {
        auto from = static_cast<uint64_t>(offset), count = static_cast<uint64_t>(length);
        if (offset < 0 || length < 0 || from < end || from > size || count > size - from)
            refuse(cat("has a sparse file with a map out of order or out of bounds, ", printable(written)));
        end = from + count;
        out.push_back({from, count});
    }
    return out;
}

/// A file that is written from its beginning. Zeros become holes, so that what is all zeros takes no disk.
class ScratchFile {
  public:
    ScratchFile(Fd file, const std::string& what) : file_(std::move(file)), what_(what) {}

    void write(std::string_view data) {
        constexpr uint64_t limit = LayerLimits{}.unpacked_bytes;
        if (data.size() > limit - size_)
            throw Error(cat(what_, ": the archive unpacks to more than ", human_bytes(limit), "; refused"));
        size_ += data.size();
        if (data.starts_with('\0') && data.substr(1) == data.substr(0, data.size() - 1)) {
            if (::lseek(file_.get(), static_cast<off_t>(data.size()), SEEK_CUR) < 0)
                throw SysError(cat("writing ", target));
        } else {
            sys::write_all(file_.get(), data, target);
        }
    }

    Fd finish() {
        if (sys::uninterrupted([&] { return ::ftruncate(file_.get(), static_cast<off_t>(size_)); }) != 0)
            throw SysError(cat("writing ", target));
        return std::move(file_);
    }

  private:
    static constexpr const char* target = "the unpacked archive to the store's tmp folder";
    Fd file_;
    const std::string& what_;
    uint64_t size_ = 0;
};

std::string start_of(int file, const std::string& what) {
    std::string out(longest_mark, '\0');
    if (!sys::pread_exact(file, out, 0, what))
        throw Error(cat(what, ": the archive is no tar file; refused"));
    return out;
}

/// gzip and zstd are unpacked as they are in layers: libarchive takes twice the time for gzip, and does not compare its
/// checksums.
void unpack_as_layer(const Piece& all, const Sink& out, const std::string& what, const Advance& advance,
                     LargeWindows* windows) {
    auto unpack = make_decompressor(out, best_gzip_engine(), windows);
    ZeroPadded padded(*unpack);
    auto feed = [&](std::string_view data) {
        padded.feed(data);
        if (advance) advance(data.size());
    };
    stream_piece(all, feed, what);
    padded.finish();
}

/// The archive without its compression, in a scratch file; nothing when it has none.
Fd unpacked(const std::shared_ptr<const Fd>& file, const std::string& what, const Scratch& scratch,
            const Advance& advance, LargeWindows* windows) {
    Packing packing = packing_of(start_of(file->get(), what));
    Fd out;
    naming(what, "unpacking the archive", [&] {
        if (packing == Packing::gzip || packing == Packing::zstd) {
            ScratchFile target(scratch(), what);
            auto size = static_cast<uint64_t>(sys::stat_of(file->get(), what).st_size);
            unpack_as_layer(
                {file, 0, size, "the archive"}, [&](std::string_view data) { target.write(data); }, what, advance,
                windows);
            out = target.finish();
            return;
        }
        ArchiveReader reader(file->get(), ArchiveReader::As::compressed, what);
        reader.next();
        if (reader.compressions() == 0) return;
        if (reader.compressions() > 1)
            throw Error(cat("it is compressed ", reader.compressions(), " times over, not once; refused"));
        ScratchFile target(scratch(), what);
        reader.read_all([&](std::string_view data) { target.write(data); }, advance);
        out = target.finish();
    });
    return out;
}

}  // namespace

std::shared_ptr<const Files> open_archive(Fd file, const std::string& what, const Scratch& scratch,
                                          const Advance& advance, LargeWindows* windows) {
    auto given = std::make_shared<const Fd>(std::move(file));
    Fd plain = unpacked(given, what, scratch, advance, windows);
    if (plain) return std::make_shared<Archive>(std::make_shared<const Fd>(std::move(plain)), what, Advance());
    return std::make_shared<Archive>(given, what, advance);
}

Fd open_archive_file(const std::string& path, const std::string& what) {
    Fd file = sys::open_file(path, O_RDONLY | O_NONBLOCK);
    struct stat st = sys::stat_of(file.get(), printable(path, 4096));
    if (S_ISDIR(st.st_mode))
        throw Error(cat(what, ": is a directory, not an archive; a directory with an image layout is written oci:DIR"));
    if (!S_ISREG(st.st_mode)) throw Error(cat(what, ": is no regular file"));
    return file;
}

}  // namespace berth::oci
