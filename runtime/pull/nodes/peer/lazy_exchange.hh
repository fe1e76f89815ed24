// A node's part in a step whose nodes exchange the chunks of an image that runs already: each asks the registry for
// some, and gets the others from its neighbours (ChunkOwners says which).
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/pull/nodes/peer/chunk_client.hh"
#include "runtime/pull/nodes/peer/node_link.hh"
#include "runtime/store/partial.hh"

namespace berth::pull::nodes {

/// Exchanging is a gain and never a need: what does not come from a neighbour, source() leaves to the registry.
class LazyExchange {
  public:
    /// Enters, and waits until the others have as well, for some seconds at most. Throws Error when the tracker, a port
    /// or an answer cannot be had. `profile` is what a start reads first.
    LazyExchange(NodeSettings settings, std::shared_ptr<const store::Partial> partial,
                  const std::vector<uint32_t>& profile);
    /// Ends the server and the conversation.
    ~LazyExchange();
    LazyExchange(const LazyExchange&) = delete;
    LazyExchange& operator=(const LazyExchange&) = delete;

    unsigned nodes() const;
    /// Those that send chunks to this one. When a node has gone, there may be others. Any thread.
    std::vector<unsigned> neighbours() const;
    /// The neighbour that the chunk comes from; nothing for one that the registry is to be asked for. Any thread.
    std::optional<unsigned> source(uint32_t chunk) const;

    /// Takes the bytes of a whole chunk, and throws Error when they are wrong.
    using Sink = std::function<void(uint32_t chunk, std::string_view bytes)>;
    /// Takes these chunks, one behind the other, from a neighbour, which brings them before what nobody waits for.
    /// False when it has not sent all of them. Throws SysError that `sink` throws.
    bool take(ChunkClient& client, unsigned neighbour, ChunkMap::Chunks chunks, const Sink& sink,
              const std::function<bool()>& is_over);
    /// Takes all that comes from a neighbour, until that is all, or is left to the registry. Throws as take() does.
    void take_all(ChunkClient& client, unsigned neighbour, const Sink& sink, const std::function<bool()>& is_over);
    /// After take_all(): waits until there is more to come from the neighbour, since another node has gone. False:
    /// nothing is taken from it any more, or `is_over`.
    bool wait_for_more(unsigned neighbour, const std::function<bool()>& is_over);
    /// Has wait_for_more() look at its `is_over` at once. Any thread.
    void wake();

    /// What has come of a chunk, from `offset` on, so that neighbours have it before the chunk is whole. Any thread.
    void add_part(uint32_t chunk, uint32_t offset, std::string_view bytes);
    /// The chunk has come whole, perhaps once more: it is in its file, or was wrong. Any thread.
    void settle(uint32_t chunk, bool is_right);

    /// Of the layers (by number, in the order of the image's index): is it for this node to prove?
    bool is_to_prove(unsigned layer) const;
    /// This node has proved the layer, or another one has.
    void tell_proved(unsigned layer);
    bool is_proved(unsigned layer) const;
    /// Everything is here, and proved where it is for this node to do. Returns when no node needs this one any more, or
    /// srun has gone.
    void serve_to_the_end();

    uint64_t sent() const;  ///< bytes

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::pull::nodes
