#include "runtime/oci/remainder/rebuild.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

constexpr size_t read_size = 1 << 20;  // a multiple of any block's size

}  // namespace

TarRebuilder::TarRebuilder(squash::LayerFiles& layer, Sink tar, uint64_t limit)
    : layer_(layer),
      tar_(std::move(tar)),
      reader_({[this](std::string_view bytes) { tar_(bytes); }, [this](const FilePart& part) { give(part); }}, limit),
      buffer_(read_size) {}

void TarRebuilder::give(const FilePart& part) {
    auto file = layer_.find(part.path);
    uint64_t size = file ? file->data.size : 0;
    bool is_there = file && part.offset <= size && part.size <= size - part.offset;
    for (uint64_t done = 0; is_there && done < part.size;) {
        std::span<char> out = std::span(buffer_).first(std::min<uint64_t>(read_size, part.size - done));
        is_there = layer_.read(file->data, part.offset + done, out);
        origin_ = {file->inode, part.offset + done, {out.data(), out.size()}};
        if (is_there) tar_(origin_.bytes);
        done += out.size();
    }
    origin_ = {};
    if (!is_there)
        throw Error(cat("the remainder of a tar stream names bytes of ", printable(part.path),
                        " that its layer does not have"));
}

}  // namespace berth::oci
