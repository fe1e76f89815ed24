// A node's side of the conversation with the tracker.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

/// A connection that lives as long as the node takes part.
class TrackerClient {
  public:
    /// Connects within two seconds. Throws Error.
    explicit TrackerClient(const MeetingPlace& place);
    ~TrackerClient();

    /// This machine's address on the way to the tracker, numeric: where other nodes most likely reach it.
    std::string own_address() const;

    /// Any thread. Throws Error when the connection is gone.
    void send(const Message& message);
    /// One thread. Nothing when none came in time. Throws Error when the connection is gone, or for what is no message
    /// of the tracker.
    std::optional<Message> receive(std::chrono::milliseconds patience);
    /// Any thread: receive() throws from now on.
    void shut_down();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::pull::nodes
