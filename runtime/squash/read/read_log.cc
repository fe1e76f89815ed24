#include "runtime/squash/read/read_log.hh"

#include <algorithm>
#include <unordered_set>

namespace berth::squash {

bool ReadLog::reads_what_is_known() const {
    std::unordered_set<uint32_t> known;
    for (const PrefetchExtent& extent : parse_prefetch_list(*known_).extents) known.insert(extent.inode);
    auto hits = std::count_if(first_.begin(), first_.end(), [&](uint32_t inode) { return known.contains(inode); });
    return static_cast<size_t>(hits) * 2 >= first_.size();
}

void ReadLog::note(uint32_t inode, uint64_t offset, uint64_t size) {
    std::vector<PrefetchExtent>& extents = reads_of_start_.extents;
    auto first = static_cast<uint32_t>(offset / prefetch_page);
    auto end = static_cast<uint32_t>((offset + size + prefetch_page - 1) / prefetch_page);
    auto [found, is_new] = last_.try_emplace(inode, extents.size());
    if (!is_new) {
        PrefetchExtent& before = extents[found->second];
        uint32_t behind = before.first + before.count;
        bool goes_on = first >= before.first && first <= behind &&
                       end - before.first <= prefetch_extent_bytes / prefetch_page;
        if (goes_on) {
            before.count = std::max(behind, end) - before.first;
            return;
        }
        found->second = extents.size();
    }
    extents.push_back({inode, first, end - first});
}

ReadLog::Follows ReadLog::add(uint32_t inode, uint64_t offset, uint64_t size) {
    constexpr uint64_t most = uint64_t{UINT32_MAX} * prefetch_page;
    if (size == 0 || offset > most || size > most - offset) return Follows::unknown;
    std::lock_guard lock(mutex_);
    if (takes_more()) note(inode, offset, size);
    if (first_.size() == deciding) return Follows::unknown;
    first_.push_back(inode);
    if (first_.size() < deciding || !known_) return Follows::unknown;
    Follows out = reads_what_is_known() ? Follows::yes : Follows::no;
    known_.reset();
    return out;
}

bool ReadLog::is_decided() const {
    std::lock_guard lock(mutex_);
    return first_.size() == deciding;
}

void ReadLog::add_listing(uint32_t directory) {
    std::lock_guard lock(mutex_);
    std::vector<PrefetchExtent>& extents = reads_of_start_.extents;
    if (takes_more() && last_.try_emplace(directory, extents.size()).second) extents.push_back({directory, 0, 0});
}

void ReadLog::add_missing(uint32_t directory, std::string_view name) {
    std::lock_guard lock(mutex_);
    std::vector<MissingName>& missing = reads_of_start_.missing;
    if (takes_more() && missing.size() < prefetch_names) missing.push_back({directory, std::string(name)});
}

PrefetchReads ReadLog::reads() const {
    std::lock_guard lock(mutex_);
    return reads_of_start_;
}

}  // namespace berth::squash
