// What makes a connection between a node and srun's tracker one of the step, and nobody else's. Each end begins with a
// line that has a nonce of its own; messages follow, each with a code over it (HMAC-SHA256 by the step's secret) that
// depends on both nonces, the direction and the number of the message.
//
//     berth-share-1 NONCE [WORD...] CODE       the node's first line
//     berth-share-1 NONCE [WORD...] CODE       the tracker's first line
//     berth-share-1 other CODE                 the same, to a node of another version
//     MESSAGE CODE                             all others
//
// In every version the first word names it, the second word of a node is its nonce, and the last one is the code.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

/// One end of a connection. Lines are without their end.
class Session {
  public:
    /// `nonce` is never used twice.
    Session(Sender end, std::string secret, std::string nonce);

    /// Whether a first line is of this conversation, in any version.
    static bool is_greeting(std::string_view line);

    /// This end's first line. The tracker has taken the node's before.
    std::string greeting() const;
    /// Takes the other end's first line; false when it is not by one who knows the secret. Throws Error when the
    /// tracker is of another release.
    bool take_greeting(std::string_view line);
    /// On the tracker's side: the node's release is another one, and greeting() tells it so.
    bool is_other_release() const { return is_other_release_; }

    /// A message with its code.
    std::string wrap(const std::string& words);
    /// The words of the next message of the other end; nothing when the line is not that.
    std::optional<std::string_view> unwrap(std::string_view line);

  private:
    std::string context(Sender from, uint64_t number) const;

    Sender end_;
    std::string secret_, own_nonce_, other_nonce_;
    uint64_t sent_ = 0, received_ = 0;
    bool is_other_release_ = false;
};

inline constexpr size_t greeting_limit = 4096;  ///< bytes of a first line

}  // namespace berth::pull::nodes
