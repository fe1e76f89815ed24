#include "runtime/squash/read/layer_files.hh"

#include <fcntl.h>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/squash/index/find.hh"
#include "runtime/squash/index/tree.hh"
#include "runtime/squash/read/read_tree.hh"

namespace berth::squash {

namespace {

constexpr size_t cache_bytes = 8 << 20;  // files are read in the order in which they lie there

/// Anybody may have made the file. Far above what a conversion lets a layer have (oci::LayerLimits::tree_bytes).
constexpr TreeLimits limits{.inodes = 5'000'000, .depth = 1024, .metadata_bytes = 1ULL << 30};

Index index_of(int fd, const std::string& what, const BlockSums& sums) {
    std::vector<LayerInfo> layers(1);
    Tree tree = read_tree(fd, what, 0, layers[0], limits);
    add_sums(tree, sums);
    return Index::from_bytes(build_index(tree, layers, {}));
}

std::vector<Fd> copy_of(int fd, const std::string& what) {
    std::vector<Fd> out;
    out.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!out.back()) throw SysError(cat("reading ", what));
    return out;
}

}  // namespace

LayerFiles::LayerFiles(int fd, const std::string& what, const BlockSums& sums)
    : index_(index_of(fd, what, sums)), reader_(copy_of(fd, what), index_.layers(), cache_bytes) {}

std::optional<LayerFiles::File> LayerFiles::find(const std::string& path) const {
    uint32_t inode = find_path(index_, path);
    auto data = inode == 0 ? std::nullopt : index_.file(inode);
    if (!data) return std::nullopt;
    return File{inode, *data};
}

bool LayerFiles::read(const FileData& file, uint64_t offset, std::span<char> out) {
    return reader_.read(file, offset, out) == static_cast<long>(out.size());
}

}  // namespace berth::squash
