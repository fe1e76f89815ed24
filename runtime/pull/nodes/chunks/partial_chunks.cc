#include "runtime/pull/nodes/chunks/partial_chunks.hh"

#include "runtime/base/chunk_map.hh"

namespace berth::pull::nodes {

void PartialChunks::add(uint32_t chunk, uint32_t offset, std::string_view bytes) {
    std::lock_guard lock(mutex_);
    auto found = coming_.find(chunk);
    if (found == coming_.end()) {
        if (offset != 0 || coming_.size() == limit) return;
        found = coming_.emplace(chunk, std::string()).first;
        found->second.reserve(ChunkMap::chunk_size);
    }
    std::string& to = found->second;
    size_t before = to.size();
    if (offset <= to.size() && offset + bytes.size() > to.size()) to += bytes.substr(to.size() - offset);
    if (before / unit != to.size() / unit) set_news();
}

/// With the mutex.
void PartialChunks::set_news() {
    ++news_;
    changed_.notify_all();
}

uint32_t PartialChunks::news() const {
    std::lock_guard lock(mutex_);
    return news_;
}

void PartialChunks::wait_for_news(uint32_t seen, std::chrono::milliseconds limit) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return news_ != seen; });
}

void PartialChunks::set_whole(uint32_t chunk) {
    std::lock_guard lock(mutex_);
    coming_.erase(chunk);
    set_news();
}

void PartialChunks::set_wrong(uint32_t chunk) {
    std::lock_guard lock(mutex_);
    coming_.erase(chunk);
    ++wrong_[chunk];
}

uint32_t PartialChunks::beginning_of(uint32_t chunk) const {
    auto found = wrong_.find(chunk);
    return found == wrong_.end() ? 0 : found->second;
}

uint32_t PartialChunks::beginning(uint32_t chunk) const {
    std::lock_guard lock(mutex_);
    return beginning_of(chunk);
}

std::vector<PartialChunks::Chunk> PartialChunks::all() const {
    std::lock_guard lock(mutex_);
    std::vector<Chunk> out;
    for (const auto& [chunk, bytes] : coming_) out.push_back({chunk, static_cast<uint32_t>(bytes.size())});
    return out;
}

std::string PartialChunks::bytes(uint32_t chunk, uint32_t beginning, uint32_t offset, uint32_t size) const {
    std::lock_guard lock(mutex_);
    auto found = coming_.find(chunk);
    if (found == coming_.end() || beginning != beginning_of(chunk) || offset >= found->second.size()) return {};
    return found->second.substr(offset, size);
}

}  // namespace berth::pull::nodes
