#include "runtime/oci/remainder/split.hh"

#include <algorithm>

#include "runtime/oci/layer/unpack.hh"

namespace berth::oci {

void TarSplitter::entry(const TarEntry& entry) {
    file_.reset();
    position_ = 0;
    if (entry.type != TarEntry::Type::file) return;
    path_ = normalised_name(entry.name);
    file_ = layer_.find(path_);
    if (file_ && file_->data.size != entry.size) file_.reset();
}

/// How many of the bytes, from their start, the layer's file has too.
size_t TarSplitter::same_bytes(std::string_view bytes) {
    if (!file_ || position_ + bytes.size() > file_->data.size) return 0;
    buffer_.resize(bytes.size());
    if (!layer_.read(file_->data, position_, buffer_)) return 0;
    return static_cast<size_t>(std::mismatch(bytes.begin(), bytes.end(), buffer_.begin()).first - bytes.begin());
}

void TarSplitter::data(std::string_view bytes) {
    size_t same = same_bytes(bytes);
    if (same > 0) writer_.add_part(path_, position_, same);
    position_ += bytes.size();
    if (same == bytes.size()) return;
    file_.reset();
    kept_bytes_ += bytes.size() - same;
    writer_.add_bytes(bytes.substr(same));
}

void TarSplitter::finish() {
    parser_.finish();
    writer_.finish();
}

}  // namespace berth::oci
