// Takes a layer from other nodes of the step: two stripes at a time, each from its own source, and from the next one
// when that one fails.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/pull/nodes/chunks/growing_layer.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

struct SourcePeer {
    unsigned place = 0;  ///< in Plan::peers
    Peer peer;
};

/// From whom the stripes of one layer are taken; the tracker may change that while they come. Any thread.
class SourceList {
  public:
    using Lists = std::array<std::vector<SourcePeer>, stripe_count>;
    void set(Lists lists);
    /// The one to ask now; nothing when there is none.
    std::optional<SourcePeer> current(unsigned stripe) const;
    /// The next one's turn, unless the list has changed since `source` was the current one. Behind the last one comes
    /// the first.
    void pass_over(unsigned stripe, const SourcePeer& source);
    /// The first one's turn again, under the same condition.
    void begin_again(unsigned stripe, const SourcePeer& source);
    /// Another number after each set().
    unsigned version() const { return version_; }

  private:
    mutable std::mutex mutex_;
    Lists lists_;
    std::array<size_t, stripe_count> turns_ = {};
    std::atomic<unsigned> version_ = 0;
};

/// Why a layer does not come from other nodes: it is to be pulled.
class NotShared : public Error {
  public:
    using Error::Error;
};

struct ReceiveSettings {
    std::string token;                          ///< see client_token()
    /// Bytes that the layer may have: what is sent before its owner has told, and what that tells.
    uint64_t limit = UINT64_MAX;
    const std::atomic<bool>* stop = nullptr;    ///< ends everything
    /// Without a chunk of the layer, whatever its sources say. The tracker knows sooner when nobody will send it.
    std::chrono::milliseconds patience{300'000};
    /// After so long without a chunk the next source may have some. That is no fault of the one that is left. The
    /// last one of a list, who has all of the layer, is asked before the tracker takes this node for cut off.
    std::chrono::milliseconds starving{15'000};
    /// So long after a source had nothing, or its connection failed, the first one is asked again: else all who left
    /// theirs gather at a few, and the more they are the less each of them gets.
    std::chrono::milliseconds back{30'000};
    /// Told of a source that is passed over, and why; any thread.
    std::function<void(const SourcePeer&, Fault, const std::string& reason)> complain;
    /// Told of a source that says that it will not have the layer; any thread.
    std::function<void(const SourcePeer&)> will_not_have = {};
    /// Told of bytes that came and were right; any thread.
    std::function<void(uint64_t)> received;
    /// Told how many bytes of the stripe the source has that are not here yet; any thread.
    std::function<void(unsigned stripe, uint64_t bytes)> behind;
    /// True when the layer is not to be received any more (this node is to bring it, or to pull it alone).
    std::function<bool()> is_over;
};

/// Receives the layer into `file`, an empty file open for reading and writing. Returns when it is whole and as its
/// owner has it. Throws NotShared, or SysError of this node's disk; "stopped" as Error.
void receive_layer(GrowingLayer& layer, int file, SourceList& sources, const ReceiveSettings& settings);

}  // namespace berth::pull::nodes
