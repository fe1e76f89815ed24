#include "runtime/squash/index/index.hh"

#include "runtime/squash/index/index_bytes.hh"

namespace berth::squash {

Index::Index(std::unique_ptr<IndexBytes> bytes) : bytes_(std::move(bytes)) {}
Index::Index(Index&&) noexcept = default;
Index& Index::operator=(Index&&) noexcept = default;
Index::~Index() = default;

Index Index::open(int fd, const std::string& what) {
    return Index(std::make_unique<IndexBytes>(fd, what));
}

Index Index::from_bytes(std::string bytes) {
    return Index(std::make_unique<IndexBytes>(std::move(bytes)));
}

int Index::descriptor() const {
    return bytes_->descriptor();
}

uint32_t Index::inode_count() const {
    return bytes_->header().inode_count;
}

bool Index::has_xattrs() const {
    return bytes_->header().flags & format::flag_xattrs;
}

const std::vector<LayerInfo>& Index::layers() const {
    return bytes_->layers();
}

plan::ImageConfig Index::config() const {
    return bytes_->config();
}

}  // namespace berth::squash
