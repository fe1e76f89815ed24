// What the nodes of a step and the tracker beside srun tell one another about an image that several of them lack. Each
// message is a line of words with a code over them (HMAC-SHA256 by the step's secret, the connection's two nonces, the
// direction and the number of the message), so that nobody else on the network takes part and nothing can be replayed.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/pull/share/plan.hh"
#include "runtime/pull/share/shared_document.hh"
#include "runtime/pull/share/step_status.hh"

namespace berth::pull::share {

/// Where a node serves layers.
struct Peer {
    std::string node;     ///< its name, for people
    std::string address;  ///< numeric
    uint16_t port = 0;
    std::string key;      ///< "sha256//BASE64" of its public key, as CURLOPT_PINNEDPUBLICKEY takes it
};

// From a node.

/// The first message. Nodes with the same `image` share.
struct Hello {
    Peer self;
    unsigned rank = 0;      ///< of the node in the step, from 0
    Digest image;           ///< what the step's tag means: of a manifest or an image index
    uint64_t release = 0;   ///< of the form of these messages
    uint64_t link = 0;      ///< Mbit/s of its way to the others; 0: not known
};
/// After Fetch: from what `image` names down to the config.
struct Documents {
    std::vector<SharedDocument> documents;
};
/// After Documents: sizes in bytes as the registry has the layers, and which are here.
struct Have {
    std::vector<uint64_t> sizes;
    std::vector<bool> has;
};
/// From a layer's owner: it is whole and checked. `pieces` is the SHA-256 of the SHA-256 of all pieces, in order.
struct Sealed {
    unsigned layer = 0;
    uint64_t size = 0;  ///< bytes of the file
    Digest pieces;
    std::string owner = {};  ///< the name of the node that has it so, from the tracker alone
};
/// From a receiver: it has published the layer and serves all of it.
struct Done {
    unsigned layer = 0;
};
/// From an owner that cannot bring the layer, or a node that cannot bring the documents (layer: none).
struct Failed {
    std::optional<unsigned> layer;
    std::string reason;  ///< one line
};
/// Why a source is passed over.
enum class Fault {
    silent,  ///< it does not answer, or its connection fails: that may be the network's fault
    wrong,   ///< what it sends
    gone,    ///< it says that it will not have the layer, which is no fault
};
/// About a source; `reason` is a line for people.
struct Complaint {
    std::string key;  ///< Peer::key of the source
    unsigned layer = 0;
    Fault fault = Fault::silent;
    std::string reason;
};
/// How far a node is with one layer.
struct LayerProgress {
    uint32_t pieces = 0;      ///< that it has, and can send
    bool is_awaited = false;  ///< it asks others for more of them
};
/// Once a second while layers come.
struct Progress {
    uint64_t registry = 0;  ///< bytes so far from the registry
    uint64_t peers = 0;     ///< and from other nodes
    uint64_t behind = 0;    ///< that its sources had at the last word, and it had not
    uint64_t sent = 0;      ///< bytes so far to other nodes
    bool is_at_work = false;  ///< something comes from the registry or is made of that; or it is to wait (Retry-After)
    std::vector<LayerProgress> layers = {};  ///< in the order of Have
};
/// Everything is here and published. The node goes on serving until End.
struct Finished {};
/// The first message of a node whose image has started already, see gathering.hh. Nodes with the same `image` exchange
/// its pieces.
struct Enter {
    Peer self;
    unsigned rank = 0;     ///< of the node in the step, from 0
    Digest image;          ///< of the manifest
    uint64_t release = 0;  ///< of the form of pieces
};
/// The layer with this number in the image's index is what the image has. Also to the others.
struct Proved {
    unsigned layer = 0;
};

using FromNode =
    std::variant<Hello, Documents, Have, Sealed, Done, Failed, Complaint, Progress, Finished, Enter, Proved>;

// To a node.

/// Ask the registry for the documents, and tell them. (`Documents` is the message to all the others.)
struct Fetch {};

/// What to do about one layer.
struct LayerRole {
    /// To bring it from the registry, or, when it is here, to serve it (of those that have it, whoever somebody needs);
    /// it says Sealed either way.
    bool is_owner = false;
    std::array<std::vector<unsigned>, stripe_count> sources = {};  ///< places in Plan::peers, the best first
};
/// In answer to Have.
struct Plan {
    std::vector<Peer> peers;         ///< those that this node has to do with
    std::vector<LayerRole> layers;   ///< in the order of Have
};
/// Later word about one layer: another owner (perhaps this node), or other sources.
struct NewRole {
    unsigned layer = 0;
    std::vector<Peer> peers;  ///< LayerRole::sources are places in this list
    LayerRole role;
};
/// Pull this layer (none: everything) as if there was nobody else. `reason` is a line for people; empty where nothing
/// is wrong.
struct Alone {
    std::optional<unsigned> layer;
    std::string reason;
};
/// Nobody needs anything of this node any more.
struct End {};

/// In answer to Enter, once the others have come as well.
struct Roster {
    std::optional<unsigned> own;  ///< this node's place; nothing for one that came later
    std::vector<Peer> peers;
};

/// After Roster: one of its nodes has gone.
struct Gone {
    unsigned node = 0;  ///< its place
};

using ToNode = std::variant<Fetch, Documents, Plan, Sealed, NewRole, Alone, StepStatus, End, Roster, Proved, Gone>;

/// Form of the messages: nodes with another one pull alone.
inline constexpr uint64_t release = 5;
/// Form of what is sent about an image that has started, and which node is asked for what (PieceOwners).
inline constexpr uint64_t pieces_release = 4;

inline constexpr size_t line_limit = 16 << 20;  ///< bytes of a message, with its code
inline constexpr size_t layer_limit = 4096;     ///< layers of an image that is shared
inline constexpr size_t reason_limit = 4096;    ///< bytes of a reason; a longer one is cut

/// A message as words, without a code.
std::string words_of(const FromNode& message);
std::string words_of(const ToNode& message);

/// What the words say; nothing for anything that words_of() does not write.
std::optional<FromNode> read_from_node(std::string_view words);
std::optional<ToNode> read_to_node(std::string_view words);

}  // namespace berth::pull::share
