// Which bytes of the layer files a flattened file needs, and where they go.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/squash/index/tree_data.hh"

namespace berth::squash {

/// The blocks of one layer, as ranges of its file.
class BlockRanges {
  public:
    void add(uint64_t start, uint64_t bytes) {
        if (bytes > 0) ranges_.push_back({start, bytes, 0});
    }
    /// Sorts and joins what was added; returns its bytes.
    uint64_t join();
    /// Copies what was joined from `from` to `to`, at `position` of what begins there at `start`, a multiple of 4096;
    /// the position is moved on, and `advance` is told of bytes as they are copied. Ranges lie in blocks as they did,
    /// so that file systems can share them. Throws SysError.
    void copy(int from, int to, uint64_t start, uint64_t& position, const std::string& what,
              const std::function<void(uint64_t bytes)>& advance);
    /// Where the byte at `start`, which was added, is now.
    uint64_t moved(uint64_t start) const;

  private:
    struct Range {
        uint64_t start;
        uint64_t bytes;
        uint64_t target;
    };
    std::vector<Range> ranges_;
};

/// What the tree needs of each of the layers.
std::vector<BlockRanges> ranges_of(const TreeData& tree, size_t layers);

}  // namespace berth::squash
