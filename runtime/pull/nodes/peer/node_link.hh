// What ties a node to the others of its swarm, in whatever way it wants the image: the conversation with the tracker,
// and the server for other nodes.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "runtime/base/digest.hh"
#include "runtime/pull/nodes/peer/chunk_server.hh"
#include "runtime/pull/nodes/peer/tracker_client.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

struct NodeSettings {
    MeetingPlace place = {};           ///< of the tracker, and who this node is
    Digest image = unread_digest();    ///< see Hello
    std::string address = {};  ///< by which other nodes reach this one; empty: that of the way to the tracker
    uint16_t first_port = 0;   ///< to serve at; 0: any
    uint16_t last_port = 0;
    uint64_t rate = 0;  ///< bytes a second that are sent at most; 0: no limit
    const std::atomic<bool>* stop = nullptr;
    std::function<void(const std::string&)> notice = {};  ///< takes a line for people; any thread
    /// Takes how far the nodes are, once a second; nothing when this node is alone; any thread.
    std::function<void(const std::optional<StepStatus>&)> status = {};
};

class NodeLink {
  public:
    /// Connects, and serves. Throws Error when the tracker or a port cannot be had.
    explicit NodeLink(const NodeSettings& settings);
    ~NodeLink() { leave(); }
    NodeLink(const NodeLink&) = delete;
    NodeLink& operator=(const NodeLink&) = delete;

    /// Says Hello. From then on `hear` gets each message of the tracker, in a thread of this object, and null when none
    /// has come for a quarter of a second, until it returns false; `lost`, once, why the conversation has ended.
    void join(bool is_lazy, std::function<bool(Message*)> hear, std::function<void(const std::string&)> lost);
    /// Ends the conversation: afterwards nothing is called any more.
    void leave();

    /// Any thread. Throws Error when the connection is gone.
    void send(const Message& message) { tracker_.send(message); }
    ChunkServer& server() { return server_; }
    const std::string& token() const { return token_; }

  private:
    const NodeSettings& settings_;
    std::string token_;
    TrackerClient tracker_;
    Identity identity_;
    ChunkServer server_;
    std::thread listener_;
};

}  // namespace berth::pull::nodes
