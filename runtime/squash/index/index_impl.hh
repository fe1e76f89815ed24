// The inside of Index: its bytes, which are read and checked page by page, and access to their records.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "runtime/base/fd.hh"

#include "runtime/squash/index/index.hh"
#include "runtime/squash/index/index_format.hh"

namespace berth::squash {

struct Index::Impl {
    std::string owned;
    Fd source;             ///< what `memory` is filled from; empty: `bytes` are all there
    char* memory = nullptr;  ///< of the size of the file, to which pages are added
    std::string_view bytes;
    format::Header header{};
    std::vector<LayerInfo> layers;
    /// for each page whether it is in memory and right; null: all are
    std::unique_ptr<std::atomic<bool>[]> sound;
    mutable std::mutex filling;

    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl();

    /// Memory for a file of `size` bytes, with its header and its table of pages.
    void begin(int fd, uint64_t size, const std::string& what);
    void load(const std::string& what);
    void load_pages(const std::string& what);
    void load_layers(const std::string& what);

    /// Where the first page starts.
    uint64_t body() const { return header.sections[format::pages].offset + header.sections[format::pages].size; }
    /// Brings the pages of these bytes into memory. Throws Error when they cannot be read, or are not as they were
    /// written.
    void check(const char* at, uint64_t size) const {
        if (!sound || size == 0) return;
        uint64_t first = static_cast<uint64_t>(at - bytes.data()) - body();
        for (uint64_t page = first / format::page_size; page <= (first + size - 1) / format::page_size; ++page)
            if (!sound[page].load(std::memory_order_acquire)) load_page(page);
    }
    void load_page(uint64_t page) const;
    std::string_view checked(std::string_view part) const {
        check(part.data(), part.size());
        return part;
    }

    std::string_view section(format::Section number) const {
        const format::Range& range = header.sections[number];
        return bytes.substr(range.offset, range.size);
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
    void check_blocks(const FileData& file, uint64_t block_size, uint64_t offset, uint64_t size) const;
    bool find_blocks(const format::InodeRecord& record, uint64_t count, FileData& file) const;
    template <typename Visit>
    void each_xattr(uint32_t number, Visit visit) const;
};

}  // namespace berth::squash
