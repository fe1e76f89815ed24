// Tar archives as folders: only headers are read, what lies between them is skipped.
#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>
#include <unordered_map>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/sys.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/layer/decompress.hh"
#include "runtime/oci/layer/tar_header.hh"
#include "runtime/oci/limits.hh"
#include "runtime/oci/source/files.hh"

namespace berth::oci {

namespace {

constexpr size_t extension_limit = 1 << 20;
constexpr unsigned link_limit = 8;

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

class Archive : public Files {
  public:
    Archive(Fd file, std::string what, const Advance& advance)
        : file_(std::make_shared<const Fd>(std::move(file))), what_(std::move(what)) {
        naming(what_, "reading the archive", [&] { scan(advance); });
    }

    std::optional<Piece> find(const std::string& path) const override {
        std::string name = normalised(path);
        for (unsigned hops = 0; hops <= link_limit; ++hops) {
            auto found = entries_.find(name);
            if (found == entries_.end()) return std::nullopt;
            if (found->second.link.empty()) return Piece{file_, found->second.offset, found->second.size, path};
            name = found->second.link;
        }
        throw Error(cat(what_, ": ", printable(path), " is a link of links in the archive; refused"));
    }

  private:
    struct Entry {
        uint64_t offset = 0;
        uint64_t size = 0;
        std::string link;  ///< normalised
    };

    void scan(const Advance& advance);
    uint64_t scan_entry(const uint8_t* block, uint64_t at);
    std::string extension(uint64_t at, uint64_t size) const;
    void add(const TarHeader& header, uint64_t at, uint64_t size);
    [[noreturn]] void refuse(const std::string& why) const {
        throw Error(cat(what_, ": the archive ", why, "; refused"));
    }

    std::shared_ptr<const Fd> file_;
    std::string what_;
    uint64_t end_ = 0;
    size_t count_ = 0;
    std::unordered_map<std::string, Entry> entries_;
    PaxFields pax_;
    std::string long_name_, long_link_;
};

void Archive::scan(const Advance& advance) {
    end_ = static_cast<uint64_t>(sys::stat_of(file_->get(), what_).st_size);
    uint8_t block[tar_block];
    for (uint64_t at = 0; end_ - at >= tar_block;) {
        if (!sys::pread_exact(file_->get(), block, sizeof block, at, what_)) refuse("became shorter while it was read");
        if (is_zero_block(block)) return;
        if (!checksum_matches(block)) refuse(at == 0 ? "is no tar file" : cat("is damaged at byte ", at));
        uint64_t next = scan_entry(block, at + tar_block);
        if (advance) advance(next - at);
        at = next;
    }
    if (count_ == 0) refuse("is no tar file");
}

/// `at` is the first byte behind the header; returns where the next header is.
uint64_t Archive::scan_entry(const uint8_t* block, uint64_t at) {
    if (++count_ > archive_entry_limit) refuse(cat("has more than ", archive_entry_limit, " entries"));
    TarHeader header = decode_header(block);
    bool has_data = header.type < '1' || header.type > '6';
    uint64_t size = has_data ? pax_.size.value_or(header.size) : 0;
    bool extends = header.type == 'x' || header.type == 'g' || header.type == 'L' || header.type == 'K';
    if (extends) size = header.size;
    if (size > end_ - at) refuse(cat("is cut off inside ", printable(header.name)));
    if (header.type == 'x') {
        decode_pax(extension(at, size), false, pax_);
    } else if (header.type == 'L' || header.type == 'K') {
        (header.type == 'L' ? long_name_ : long_link_) = extension(at, size).c_str();
    } else if (header.type == 'S' || pax_.sparse_size) {
        refuse("has a sparse file, which no archive of an image has");
    } else if (!extends) {
        add(header, at, size);
    }
    uint64_t padded = (size + tar_block - 1) / tar_block * tar_block;
    return at + std::min(padded, end_ - at);
}

std::string Archive::extension(uint64_t at, uint64_t size) const {
    if (size > extension_limit) refuse("has an extended header of more than 1 MiB");
    return read_piece({file_, at, size, "an extended header"}, extension_limit, what_);
}

void Archive::add(const TarHeader& header, uint64_t at, uint64_t size) {
    std::string name = pax_.path ? *pax_.path : !long_name_.empty() ? long_name_ : header.name;
    std::string link = pax_.link ? *pax_.link : !long_link_.empty() ? long_link_ : header.link;
    pax_ = {};
    long_name_.clear();
    long_link_.clear();
    bool is_file = header.type == '0' || header.type == '\0' || header.type == '7';
    if (!is_file && header.type != '1' && header.type != '2') return;
    if (header.type == '2') {
        // Relative to the folder that it is in; an absolute one leaves the archive.
        size_t slash = name.rfind('/');
        link = link.starts_with("/") ? "" : cat(slash == name.npos ? "" : name.substr(0, slash + 1), link);
    }
    Entry entry{at, size, is_file ? "" : normalised(link)};
    name = normalised(name);
    if (name.empty() || (!is_file && entry.link.empty())) return;
    entries_[name] = std::move(entry);
}

bool is_packed(int file, const std::string& what) {
    uint8_t head[4] = {};
    if (!sys::pread_exact(file, head, sizeof head, 0, what))
        throw Error(cat(what, ": the archive is no tar file; refused"));
    constexpr uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    return std::memcmp(head, gzip, sizeof gzip) == 0 || std::memcmp(head, zstd, sizeof zstd) == 0;
}

Fd unpacked(Fd file, const std::string& what, const Scratch& scratch, const Advance& advance) {
    Fd out = scratch();
    uint64_t written = 0;
    auto unpack = make_decompressor([&](const void* data, size_t size) {
        written += size;
        if (written > LayerLimits{}.unpacked_bytes)
            throw Error(cat(what, ": the archive unpacks to more than ", human_bytes(LayerLimits{}.unpacked_bytes),
                            "; refused"));
        sys::write_all(out.get(), {static_cast<const char*>(data), size},
                       "the unpacked archive to the store's tmp folder");
    });
    Piece all{std::make_shared<const Fd>(std::move(file)), 0, 0, "the archive"};
    all.size = static_cast<uint64_t>(sys::stat_of(all.file->get(), what).st_size);
    naming(what, "unpacking the archive", [&] {
        auto feed = [&](const void* data, size_t size) {
            unpack->feed(data, size);
            if (advance) advance(size);
        };
        stream_piece(all, feed, what);
        unpack->finish();
    });
    return out;
}

}  // namespace

std::shared_ptr<const Files> open_archive(Fd file, const std::string& what, const Scratch& scratch,
                                          const Advance& advance) {
    if (!is_packed(file.get(), what)) return std::make_shared<Archive>(std::move(file), what, advance);
    return std::make_shared<Archive>(unpacked(std::move(file), what, scratch, advance), what, Advance());
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
