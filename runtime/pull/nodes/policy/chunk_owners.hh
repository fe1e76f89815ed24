// Which node of a step asks the registry for which chunk of an image that has started already, and whom the others ask
// for it. Pure: all nodes come to the same.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

namespace berth::pull::nodes {

/// Up to `row_limit` nodes ask one another. More stand in a square: a node asks those of its own row, each of which
/// asks the owners in its column. So a node has to do with twice the square root of their number, and sends little more
/// than it receives.
class ChunkOwners {
  public:
    /// `ends`: for each layer, the number behind its last chunk. The profile (chunks, what a start reads first) is
    /// spread over the nodes in its order, the rest in runs. `nodes` is at least 1.
    ChunkOwners(unsigned nodes, const std::vector<uint32_t>& ends, const std::vector<uint32_t>& profile);

    /// The node has gone: others, of its column where there are some, own its chunks now, and what it passed on is
    /// asked of the owners. In whatever order nodes go, it comes to the same.
    void set_gone(unsigned node);

    unsigned owner(uint32_t chunk) const { return owners_[chunk]; }
    bool is_in_profile(uint32_t chunk) const { return is_in_profile_[chunk]; }
    /// Whom the node asks: itself for what it asks the registry for. A node without a number, which came later than the
    /// others, asks the owner, as does a number that is not one of theirs.
    unsigned source(uint32_t chunk, std::optional<unsigned> node) const;
    /// Others may have the chunk from the node.
    bool is_passed_on(uint32_t chunk, unsigned node) const;
    /// All whom the node asks, but for itself.
    std::vector<unsigned> sources(std::optional<unsigned> node) const;

    static constexpr unsigned row_limit = 4;
    static constexpr uint32_t chunks_a_run = 32;         ///< at most, that one node owns, of the rest of a layer
    static constexpr uint32_t least_chunks_a_run = 16;   ///< where there are so many in a row
    static constexpr uint32_t profile_chunks_a_run = 4;  ///< the same of the profile

  private:
    std::vector<unsigned> successors(unsigned node) const;
    void deal_again(unsigned gone);

    unsigned nodes_;
    unsigned columns_;
    std::vector<unsigned> owners_;        ///< by chunk
    std::vector<unsigned> first_owners_;  ///< the same before anybody went
    std::vector<bool> is_gone_;           ///< by node
    std::vector<bool> is_in_profile_;
};

}  // namespace berth::pull::nodes
