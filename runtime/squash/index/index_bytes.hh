// The inside of Index: its bytes, which are read and checked page by page, and access to their records.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/plan/image_config.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/index_types.hh"

namespace berth::squash {

class IndexBytes {
  public:
    /// See Index::open() and Index::from_bytes().
    IndexBytes(int fd, const std::string& what, std::string remedy);
    explicit IndexBytes(std::string bytes);
    IndexBytes(const IndexBytes&) = delete;
    IndexBytes& operator=(const IndexBytes&) = delete;
    ~IndexBytes();

    const format::Header& header() const { return header_; }
    const std::vector<LayerInfo>& layers() const { return layers_; }
    plan::ImageConfig config() const;

    /// Where the first page starts.
    uint64_t body() const { return header_.sections[format::pages].offset + header_.sections[format::pages].size; }
    /// The descriptor that pages are read by; -1: none is needed.
    int descriptor() const { return file_.get(); }
    /// Brings the pages of these bytes into memory. Throws Error when they cannot be read, or are not as they were
    /// written.
    void check(const char* at, uint64_t size) const {
        if (!sound_ || size == 0) return;
        uint64_t first = static_cast<uint64_t>(at - bytes_.data()) - body();
        for (uint64_t page = first / format::page_size; page <= (first + size - 1) / format::page_size; ++page)
            if (!sound_[page].load(std::memory_order_acquire)) load_page(page);
    }
    /// See Index::shrink().
    void forget_pages() const;
    std::string_view checked(std::string_view part) const {
        check(part.data(), part.size());
        return part;
    }

    std::string_view section(format::Section number) const {
        const format::Range& range = header_.sections[number];
        return bytes_.substr(range.offset, range.size);
    }
    /// The record at `position`, or nothing past the end of the section.
    template <typename Record>
    std::optional<Record> record(format::Section number, uint64_t position) const {
        std::string_view all = section(number);
        if (position >= all.size() / sizeof(Record)) return std::nullopt;
        const char* at = all.data() + position * sizeof(Record);
        check(at, sizeof(Record));
        Record out;
        std::memcpy(&out, at, sizeof out);
        return out;
    }
    std::optional<format::InodeRecord> inode_record(uint32_t number) const {
        if (number == 0) return std::nullopt;
        return record<format::InodeRecord>(format::inodes, number - 1U);
    }
    std::optional<format::InodeRecord> directory_record(uint32_t number) const {
        auto found = inode_record(number);
        return found && S_ISDIR(found->mode) ? found : std::nullopt;
    }
    std::string_view name_at(uint32_t offset) const {
        std::string_view all = section(format::names);
        if (offset >= all.size()) return {};
        check(all.data() + offset, 1);
        return checked(all.substr(offset + 1U, static_cast<unsigned char>(all[offset])));
    }

  private:
    IndexBytes() = default;
    void load(const std::string& what);
    void load_pages(const std::string& what);
    void load_layers(const std::string& what);
    void load_page(uint64_t page) const;

    std::string owned_, remedy_;
    Fd file_;                 ///< what `memory_` is filled from; empty: the bytes are all there
    char* memory_ = nullptr;  ///< of the size of the file, to which pages are added
    std::string_view bytes_;
    format::Header header_{};
    std::vector<LayerInfo> layers_;
    /// for each page whether it is in memory and right; null: all are
    std::unique_ptr<std::atomic<bool>[]> sound_;
    mutable std::mutex filling_;
};

}  // namespace berth::squash
