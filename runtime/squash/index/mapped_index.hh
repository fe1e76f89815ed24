// The bytes of an index file, and checked access to their records: the inside of Index.
#pragma once
#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/image_config.hh"
#include "runtime/squash/index/index_format.hh"
#include "runtime/squash/index/index_types.hh"

namespace berth::squash {

class MappedIndex {
  public:
    /// See Index::open() and Index::from_bytes().
    MappedIndex(int fd, const std::string& what);
    explicit MappedIndex(std::string bytes);
    MappedIndex(const MappedIndex&) = delete;
    MappedIndex& operator=(const MappedIndex&) = delete;
    ~MappedIndex();

    const format::Header& header() const { return header_; }
    const std::vector<LayerInfo>& layers() const { return layers_; }
    plan::ImageConfig config() const;

    /// Where the first page starts.
    uint64_t body() const { return header_.sections[format::pages].offset + header_.sections[format::pages].size; }
    /// Throws Error unless the pages of these bytes of the file are as they were written.
    void check(const char* at, uint64_t size) const {
        if (!sound_ || size == 0) return;
        uint64_t first = static_cast<uint64_t>(at - bytes_.data()) - body();
        for (uint64_t page = first / format::page_size; page <= (first + size - 1) / format::page_size; ++page)
            if (!sound_[page].load(std::memory_order_relaxed)) check_page(page);
    }
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
    MappedIndex() = default;
    void load(const std::string& what);
    void load_pages(const std::string& what);
    void load_layers(const std::string& what);
    void check_page(uint64_t page) const;

    std::string owned_;
    void* mapped_ = nullptr;
    std::string_view bytes_;
    format::Header header_{};
    std::vector<LayerInfo> layers_;
    /// for each page whether it was found to be right; null: nothing is checked
    std::unique_ptr<std::atomic<bool>[]> sound_;
};

}  // namespace berth::squash
