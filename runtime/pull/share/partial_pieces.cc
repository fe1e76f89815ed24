#include "runtime/pull/share/partial_pieces.hh"

#include "runtime/base/arrivals.hh"

namespace berth::pull::share {

void PartialPieces::add(uint32_t piece, uint32_t offset, std::string_view bytes) {
    std::lock_guard lock(mutex_);
    auto found = coming_.find(piece);
    if (found == coming_.end()) {
        if (offset != 0 || coming_.size() == limit) return;
        found = coming_.emplace(piece, std::string()).first;
        found->second.reserve(Arrivals::piece_size);
    }
    std::string& to = found->second;
    size_t before = to.size();
    if (offset <= to.size() && offset + bytes.size() > to.size()) to += bytes.substr(to.size() - offset);
    if (before / unit != to.size() / unit) set_news();
}

/// With the mutex.
void PartialPieces::set_news() {
    ++news_;
    changed_.notify_all();
}

uint32_t PartialPieces::news() const {
    std::lock_guard lock(mutex_);
    return news_;
}

void PartialPieces::wait_for_news(uint32_t seen, std::chrono::milliseconds limit) const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limit, [&] { return news_ != seen; });
}

void PartialPieces::set_whole(uint32_t piece) {
    std::lock_guard lock(mutex_);
    coming_.erase(piece);
    set_news();
}

void PartialPieces::set_wrong(uint32_t piece) {
    std::lock_guard lock(mutex_);
    coming_.erase(piece);
    ++wrong_[piece];
}

uint32_t PartialPieces::beginning_of(uint32_t piece) const {
    auto found = wrong_.find(piece);
    return found == wrong_.end() ? 0 : found->second;
}

uint32_t PartialPieces::beginning(uint32_t piece) const {
    std::lock_guard lock(mutex_);
    return beginning_of(piece);
}

std::vector<PartialPieces::Piece> PartialPieces::all() const {
    std::lock_guard lock(mutex_);
    std::vector<Piece> out;
    for (const auto& [piece, bytes] : coming_) out.push_back({piece, static_cast<uint32_t>(bytes.size())});
    return out;
}

std::string PartialPieces::bytes(uint32_t piece, uint32_t beginning, uint32_t offset, uint32_t size) const {
    std::lock_guard lock(mutex_);
    auto found = coming_.find(piece);
    if (found == coming_.end() || beginning != beginning_of(piece) || offset >= found->second.size()) return {};
    return found->second.substr(offset, size);
}

}  // namespace berth::pull::share
