// A node's part in a step whose nodes share what they pull: what the tracker says, the server for the other nodes, and
// the layers that come from them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/base/fd.hh"
#include "runtime/pull/nodes/chunks/growing_layer.hh"
#include "runtime/pull/nodes/peer/node_link.hh"
#include "runtime/pull/nodes/peer/receive.hh"

namespace berth::pull::nodes {

/// A layer of the image, each once.
struct SharedLayer {
    Digest diff_id;
    uint64_t size = 0;  ///< bytes as the registry has it
    Fd file = {};       ///< where it is here already
};

/// Sharing is a gain and never a need: whatever goes wrong, role() says `alone` from then on.
class Member {
  public:
    enum class Role {
        owner,    ///< brings it from the registry, and tells the others
        receive,  ///< from other nodes
        alone,    ///< brings it from the registry, for itself
    };

    /// Meets nobody: `alone` from the start.
    Member();
    /// Joins. Throws Error when the tracker or a port cannot be had.
    explicit Member(NodeSettings settings);
    /// Ends the server and the conversation.
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    /// The image's documents as another node got them from the registry. Nothing when this node is to get them: then
    /// tell_documents() or fail_documents() has to follow, unless everybody is alone.
    std::optional<std::vector<ImageDocument>> documents();
    void tell_documents(std::vector<ImageDocument> documents);
    void fail_documents(const std::string& reason);

    /// Says what is here and waits for the plan. Once.
    void join(std::vector<SharedLayer> layers);

    /// Whether it has joined, whatever came of that.
    bool has_met() const;
    Role role(const Digest& layer) const;
    /// To make chunks in, for a layer whose role is not `alone`.
    GrowingLayer& layer(const Digest& layer) const;
    /// See receive_layer(); `received` is told of bytes. Waits until few other layers come: one that comes alone is
    /// passed on sooner than one of many.
    void receive(const Digest& layer, int file, const std::function<void(uint64_t)>& received);
    /// The name of the node whose layer this is, once it has been received.
    std::string owner(const Digest& layer) const;
    /// The layer that this node has brought is complete.
    void tell_complete(const Digest& layer);
    /// It has been received and published.
    void tell_done(const Digest& layer);
    /// The layer will not come from here: who waits for chunks of it is told. Nothing for one that is not shared.
    void give_up(const Digest& layer);
    /// This node does not send it to others: they are to take it from somebody else.
    void leave_to_others(const Digest& layer, const std::string& reason);
    /// It cannot be brought, or other nodes do not send it.
    void tell_failed(const Digest& layer, const std::string& reason);
    /// Bytes that came from the registry.
    void count_registry(uint64_t bytes);
    /// This node brings something, or waits for its registry, and may for so long have nothing for the others: nobody
    /// is to take it for dead.
    void be_at_work(std::chrono::milliseconds longest);

    /// Everything is here. Returns when no node needs this one any more, or srun has gone.
    void serve_to_the_end();
    /// Whether others may still need this node.
    bool is_shared() const;

    struct Counts {
        uint64_t registry, received, sent;  ///< bytes
    };
    Counts counts() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::pull::nodes
