// The files of one layer file, found by their paths.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/squash/index/block_sums.hh"
#include "runtime/squash/index/index.hh"
#include "runtime/squash/read/data.hh"

namespace berth::squash {

/// Bytes that have been read from a file of a layer.
struct Origin {
    uint32_t inode = 0;  ///< 0: they come from elsewhere
    uint64_t offset = 0;
    std::string_view bytes = {};
};

/// One thread at a time.
class LayerFiles {
  public:
    /// Reads the tables of the squashfs file `fd`, and keeps a descriptor of its own. Blocks that differ from what
    /// `sums` say of them cannot be read. Throws Error naming `what`.
    LayerFiles(int fd, const std::string& what, const BlockSums& sums = {});

    const Index& index() const { return index_; }

    struct File {
        uint32_t inode = 0;
        FileData data;  ///< lives as long as the LayerFiles
    };
    /// The regular file that `path`, relative to the layer's root, leads to by the links of this layer.
    std::optional<File> find(const std::string& path) const;
    /// False unless all of `out` could be filled with the file's bytes from `offset` on.
    bool read(const FileData& file, uint64_t offset, std::span<char> out);

  private:
    Index index_;
    DataReader reader_;
};

}  // namespace berth::squash
