// The inside of Index: the mapped bytes and checked access to their records.
#pragma once
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "runtime/squash/index.hh"
#include "runtime/squash/index_format.hh"

namespace berth::squash {

struct Index::Impl {
    std::string owned;
    void* mapped = nullptr;
    std::string_view bytes;
    format::Header header{};
    std::vector<LayerInfo> layers;

    Impl() = default;
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;
    ~Impl() {
        if (mapped) ::munmap(mapped, bytes.size());
    }

    void load(const std::string& what);
    void load_layers(const std::string& what);

    std::string_view section(format::Section number) const {
        const format::Range& range = header.sections[number];
        return bytes.substr(range.offset, range.size);
    }
    /// The record at `position`, or nothing past the end of the section.
    template <typename Record>
    std::optional<Record> record(format::Section number, uint64_t position) const {
        std::string_view all = section(number);
        if (position >= all.size() / sizeof(Record)) return std::nullopt;
        Record out;
        std::memcpy(&out, all.data() + position * sizeof(Record), sizeof out);
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
        return all.substr(offset + 1U, static_cast<unsigned char>(all[offset]));
    }
    template <typename Visit>
    void each_xattr(uint32_t number, Visit visit) const;
};

}  // namespace berth::squash
