#include "runtime/pull/share/coming_reader.hh"

#include <algorithm>

namespace berth::pull::share {

ComingReader::ComingReader(Sizes sizes, Whole whole, Part part)
    : sizes_(std::move(sizes)), whole_(std::move(whole)), part_(std::move(part)) {}

bool ComingReader::take(std::string_view data) {
    heard_ = Clock::now();
    while (!data.empty()) {
        if (head_) take_bytes(data);
        else if (!take_head(data)) return false;
    }
    return true;
}

/// As take_bytes(): takes what is its own from the beginning of `data`.
bool ComingReader::take_head(std::string_view& data) {
    size_t wanted = std::min(ComingHead::wire_size - head_bytes_.size(), data.size());
    head_bytes_ += data.substr(0, wanted);
    data.remove_prefix(wanted);
    if (head_bytes_.size() < ComingHead::wire_size) return true;
    auto head = parse_coming_head(head_bytes_);
    head_bytes_.clear();
    if (!head || (head->size > 0 && !is_next(*head))) return problem_ = "it sends what is no piece", false;
    if (head->piece == ComingHead::complete) return is_complete_ = true;
    if (head->piece == ComingHead::failed) return problem_ = "it cannot get a piece", false;
    if (head->piece == ComingHead::waiting) return true;
    head_ = head;
    if (head->offset == 0) {
        unfinished_[head->piece].clear();
        unfinished_[head->piece].reserve(sizes_.of(head->piece));
    }
    return true;
}

bool ComingReader::is_next(const ComingHead& head) const {
    if (head.piece >= sizes_.pieces || head.offset + head.size > sizes_.of(head.piece)) return false;
    auto found = unfinished_.find(head.piece);
    if (found == unfinished_.end()) return head.offset == 0 && unfinished_.size() < unfinished_limit;
    return head.offset == 0 || head.offset == found->second.size();
}

void ComingReader::take_bytes(std::string_view& data) {
    std::string& piece = unfinished_[head_->piece];
    auto offset = static_cast<uint32_t>(piece.size());
    uint32_t end = head_->offset + head_->size;
    std::string_view bytes = data.substr(0, end - offset);
    data.remove_prefix(bytes.size());
    part_(head_->piece, offset, bytes);
    piece += bytes;
    fed_ = Clock::now(), has_fed_ = true;
    if (piece.size() < end) return;
    if (end == sizes_.of(head_->piece)) {
        auto whole = unfinished_.extract(head_->piece);
        whole_(whole.key(), whole.mapped());
        ++pieces_;
    }
    head_.reset();
}

}  // namespace berth::pull::share
