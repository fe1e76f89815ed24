#include "runtime/pull/nodes/chunks/chunk_reader.hh"

#include <algorithm>

namespace berth::pull::nodes {

bool ChunkReader::take(std::string_view data) {
    heard_ = Clock::now();
    while (!data.empty()) {
        if (head_)
            take_bytes(data);
        else if (!take_head(data))
            return false;
    }
    return true;
}

/// As take_bytes(): takes what is its own from the beginning of `data`.
bool ChunkReader::take_head(std::string_view& data) {
    size_t wanted = std::min(ChunkHead::wire_size - head_bytes_.size(), data.size());
    head_bytes_ += data.substr(0, wanted);
    data.remove_prefix(wanted);
    if (head_bytes_.size() < ChunkHead::wire_size) return true;
    auto head = parse_chunk_head(head_bytes_);
    head_bytes_.clear();
    if (!head || (head->size > 0 && !is_next(*head))) return problem_ = "it sends what is no chunk", false;
    if (head->index == ChunkHead::complete) return is_complete_ = true;
    if (head->index == ChunkHead::gone) return is_gone_ = true, problem_ = "it cannot get a chunk", false;
    if (taker_.head) taker_.head(*head);
    if (head->index == ChunkHead::waiting) return true;
    head_ = head;
    if (head->offset == 0) {
        unfinished_[head->index].clear();
        unfinished_[head->index].reserve(size_);
    }
    return true;
}

bool ChunkReader::is_next(const ChunkHead& head) {
    size_ = taker_.size_of(head).value_or(0);
    if (head.offset + head.size > size_) return false;
    auto found = unfinished_.find(head.index);
    if (found == unfinished_.end()) return head.offset == 0 && unfinished_.size() < unfinished_limit;
    return head.offset == 0 || head.offset == found->second.size();
}

void ChunkReader::take_bytes(std::string_view& data) {
    std::string& chunk = unfinished_[head_->index];
    auto offset = static_cast<uint32_t>(chunk.size());
    uint32_t end = head_->offset + head_->size;
    std::string_view bytes = data.substr(0, end - offset);
    data.remove_prefix(bytes.size());
    if (taker_.part) taker_.part(head_->index, offset, bytes);
    chunk += bytes;
    fed_ = Clock::now(), has_fed_ = true;
    if (chunk.size() < end) return;
    if (end == size_) {
        auto whole = unfinished_.extract(head_->index);
        taker_.whole(*head_, whole.mapped());
        ++chunks_;
    }
    head_.reset();
}

}  // namespace berth::pull::nodes
