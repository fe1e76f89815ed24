#include "runtime/squash/read/prefetch_list.hh"

#include <algorithm>
#include <map>
#include <set>

namespace berth::squash {

namespace {

// magic, u64 learnt, u32 number of extents, {u32 inode, u32 first, u32 count}[], {u32 directory, u8 length, name}[];
// little endian.
constexpr std::string_view magic = "berthpf1";
constexpr size_t header_size = 20, extent_size = 12;

bool is_extent(const PrefetchExtent& extent) {
    return extent.inode != 0 && extent.count <= prefetch_extent_bytes / prefetch_page &&
           uint64_t{extent.first} + extent.count <= UINT32_MAX;
}

bool is_missing(const MissingName& missing) {
    std::string_view name = missing.name;
    return missing.directory != 0 && !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

uint64_t number_at(std::string_view bytes, size_t at, size_t size) {
    uint64_t out = 0;
    for (size_t i = size; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
    return out;
}

void append(std::string& out, uint64_t value, size_t size) {
    for (size_t i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
}

/// A list that is added to, extent by extent. Of each file it knows which pages it has.
class Growing {
  public:
    explicit Growing(const PrefetchList& list) : out_{list.learnt, {}, {}} { add({list.extents, list.missing}); }

    void add(const PrefetchReads& reads) {
        for (const PrefetchExtent& extent : reads.extents)
            extent.count == 0 ? add_directory(extent.inode) : add(extent);
        for (const MissingName& missing : reads.missing)
            if (is_missing(missing) && out_.missing.size() < prefetch_names && missing_.insert(missing).second)
                out_.missing.push_back(missing);
    }

    PrefetchList list() && { return std::move(out_); }

  private:
    void add_directory(uint32_t inode) {
        if (inode != 0 && out_.extents.size() < prefetch_extents && directories_.insert(inode).second)
            out_.extents.push_back({inode, 0, 0});
    }

    void add(PrefetchExtent wanted) {
        if (!is_extent(wanted)) return;
        uint64_t at = wanted.first, end = at + wanted.count;
        // First page -> the page behind the last one, disjoint.
        std::map<uint64_t, uint64_t>& has = known_[wanted.inode];
        auto next = has.upper_bound(at);
        if (next != has.begin()) at = std::max(at, std::prev(next)->second);
        for (; at < end; ++next) {
            uint64_t until = next == has.end() ? end : std::min(end, next->first);
            if (until > at) keep(wanted.inode, at, until);
            if (next == has.end() || next->first >= end) break;
            at = std::max(at, next->second);
        }
        at = wanted.first;
        for (auto found = has.lower_bound(at); found != has.end() && found->first <= end; found = has.erase(found))
            end = std::max(end, found->second);
        auto before = has.upper_bound(at);
        if (before != has.begin() && std::prev(before)->second >= at) {
            std::prev(before)->second = std::max(std::prev(before)->second, end);
        } else {
            has[at] = end;
        }
    }

    void keep(uint32_t inode, uint64_t from, uint64_t until) {
        uint64_t bytes = (until - from) * prefetch_page;
        if (out_.extents.size() >= prefetch_extents || bytes > prefetch_bytes - bytes_) return;
        bytes_ += bytes;
        out_.extents.push_back({inode, static_cast<uint32_t>(from), static_cast<uint32_t>(until - from)});
    }

    PrefetchList out_;
    uint64_t bytes_ = 0;
    std::map<uint32_t, std::map<uint64_t, uint64_t>> known_;
    std::set<uint32_t> directories_;
    std::set<MissingName> missing_;
};

}  // namespace

int64_t prefetch_learnt(std::string_view bytes) {
    if (bytes.size() < header_size || !bytes.starts_with(magic)) return 0;
    return static_cast<int64_t>(number_at(bytes, 8, 8));
}

PrefetchList parse_prefetch_list(std::string_view bytes) {
    if (bytes.size() < header_size || !bytes.starts_with(magic)) return {};
    PrefetchList read{prefetch_learnt(bytes), {}, {}};
    uint64_t count = number_at(bytes, 16, 4);
    bytes.remove_prefix(header_size);
    if (count > prefetch_extents || count * extent_size > bytes.size()) return {};
    uint64_t pages = 0;
    for (; count > 0; --count, bytes.remove_prefix(extent_size)) {
        PrefetchExtent extent{static_cast<uint32_t>(number_at(bytes, 0, 4)),
                              static_cast<uint32_t>(number_at(bytes, 4, 4)),
                              static_cast<uint32_t>(number_at(bytes, 8, 4))};
        if (!is_extent(extent) || pages + extent.count > prefetch_bytes / prefetch_page) continue;
        pages += extent.count;
        read.extents.push_back(extent);
    }
    while (bytes.size() > 5 && read.missing.size() < prefetch_names) {
        size_t length = number_at(bytes, 4, 1);
        MissingName missing{static_cast<uint32_t>(number_at(bytes, 0, 4)), std::string(bytes.substr(5, length))};
        if (is_missing(missing)) read.missing.push_back(std::move(missing));
        bytes.remove_prefix(std::min(bytes.size(), 5 + length));
    }
    return read;
}

std::string format_prefetch_list(const PrefetchList& list) {
    std::string out(magic);
    append(out, static_cast<uint64_t>(list.learnt), 8);
    append(out, list.extents.size(), 4);
    for (const PrefetchExtent& extent : list.extents)
        for (uint32_t number : {extent.inode, extent.first, extent.count}) append(out, number, 4);
    for (const MissingName& missing : list.missing) {
        append(out, missing.directory, 4);
        append(out, missing.name.size(), 1);
        out += missing.name;
    }
    return out;
}

PrefetchList merged(const PrefetchList& before, const PrefetchReads& now) {
    Growing out(before);
    out.add(now);
    return std::move(out).list();
}

}  // namespace berth::squash
