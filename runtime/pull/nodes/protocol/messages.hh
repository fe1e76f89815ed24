// What the nodes of a step and the tracker beside srun tell one another about an image, wanted whole or started lazily.
// Each message is a line of words with a code over them (see session.hh), so that nobody else on the network takes part
// and nothing can be replayed.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/digest.hh"
#include "runtime/pull/nodes/protocol/chunk_head.hh"

namespace berth::pull::nodes {

/// Form of the messages, of the heads of chunks, and of who asks whom (ChunkOwners): nodes with another one pull alone.
inline constexpr uint64_t release = 5;

inline constexpr size_t line_limit = 16 << 20;  ///< bytes of a message, with its code
inline constexpr size_t layer_limit = 4096;     ///< layers of an image that is shared
inline constexpr size_t reason_limit = 4096;    ///< bytes of a reason; a longer one is cut

/// Where a node serves chunks.
struct Peer {
    std::string node;     ///< its name, for people
    std::string address;  ///< numeric
    uint16_t port = 0;
    std::string key;  ///< "sha256//BASE64" of its public key, as CURLOPT_PINNEDPUBLICKEY takes it
};

/// A digest that is still to be read.
Digest unread_digest();

/// What a registry says about an image: a manifest, image index or config, as it sent it.
struct ImageDocument {
    Digest digest = unread_digest();
    std::string content_type;  ///< may be empty
    std::string bytes;
};
using DocumentList = std::vector<ImageDocument>;

// From nodes.

/// The first message. Nodes that want the same image in the same way are a swarm.
struct Hello {
    Peer self;
    unsigned rank = 0;               ///< of the node in the step, from 0
    Digest image = unread_digest();  ///< what the step's tag means, a manifest or an image index; lazy: a manifest
    uint64_t release = 0;            ///< see above
    uint64_t link = 0;               ///< Mbit/s of its way to the others; 0: not known
    bool is_lazy = false;            ///< the image runs already
};
/// After Documents: sizes in bytes as the registry has the layers, and which are here.
struct Have {
    std::vector<uint64_t> sizes;
    std::vector<bool> has;
};
/// Why a source is passed over.
enum class Fault : uint8_t {
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
    uint32_t chunks = 0;      ///< that it has, and can send
    bool is_awaited = false;  ///< it asks others for more of them
};
/// Once a second while layers come.
struct Progress {
    uint64_t registry = 0;    ///< bytes so far from the registry
    uint64_t peers = 0;       ///< and from other nodes
    uint64_t behind = 0;      ///< that its sources had at the last word, and it had not
    uint64_t sent = 0;        ///< bytes so far to other nodes
    bool is_at_work = false;  ///< something comes from the registry or is made of that; or it is to wait (Retry-After)
    std::vector<LayerProgress> layers = {};  ///< in the order of Have
};

// From both.

/// From the node that is to ask the registry, and then to all others: from what `image` names down to the config. To a
/// node without any: it is the one that is to ask.
struct Documents {
    DocumentList documents;
};
/// What a layer's owner has made.
struct LayerSum {
    uint64_t size = 0;                ///< bytes of the file
    Digest chunks = unread_digest();  ///< SHA-256 of the SHA-256 of all chunks, in order
    std::string owner = {};           ///< the name of the node that has it so, from the tracker alone
};
/// A node has the layer, whole and checked, and serves it. With the sum: from its owner, and by the tracker to all who
/// lack it. Of an image that runs already: the layer with this number in its index is what the image has.
struct Done {
    unsigned layer = 0;
    std::optional<LayerSum> sum = {};
};
/// About a layer, or everything. From a node: it cannot bring that (at first: the documents), or others do not send it.
/// To a node: it is to pull that as if there was nobody else. `reason` is a line for people; empty where nothing is
/// wrong.
struct Alone {
    std::optional<unsigned> layer;
    std::string reason;
};
/// From a node: everything is here, and it goes on serving until it is told the same. To a node: nobody needs it.
struct Finished {};

// To nodes.

/// What to do about one layer.
struct LayerRole {
    /// To bring it from the registry, or, when it is here, to serve it (of those that have it, whoever somebody needs);
    /// it says Done with the sum either way.
    bool is_owner = false;
    std::array<std::vector<unsigned>, stripe_count> sources = {};  ///< places in the message's peers, the best first
};
/// Whole: in answer to Have. Lazy: in answer to Hello, once the others have come as well.
struct Plan {
    std::optional<unsigned> own = {};    ///< lazy: this node's place among the peers; nothing where it came later
    std::vector<Peer> peers = {};        ///< whole: those that this node has to do with; lazy: all, in order
    std::vector<LayerRole> layers = {};  ///< whole: in the order of Have
};
/// Later word about one layer: another owner (perhaps this node), or other sources.
struct NewRole {
    unsigned layer = 0;
    std::vector<Peer> peers;
    LayerRole role;
};
/// Lazy: one of the plan's peers has gone.
struct Gone {
    unsigned node = 0;  ///< its place
};
/// In answer to Progress: how far the nodes that share the image are.
struct StepStatus {
    unsigned nodes = 0, ready = 0;            ///< of them; of those, who have everything
    uint64_t registry = 0, peers = 0;         ///< bytes so far from the registry, and from other nodes, of all together
    uint64_t rate = 0, median = 0;            ///< bytes a second: of all together, and of the one in the middle
    std::string last;                         ///< the node that lacks most; empty: all have everything
    uint64_t last_bytes = 0, last_total = 0;  ///< that it has got, and is to get
    bool is_told_here = false;                ///< this node tells people of it, and no other does
};

using Message =
    std::variant<Hello, Have, Complaint, Progress, Documents, Done, Alone, Finished, Plan, NewRole, Gone, StepStatus>;
enum class Sender { node, tracker };

/// A message as words, without a code.
std::string words_of(const Message& message);
/// What the words say; nothing for anything that words_of() does not write, or this sender does not say.
std::optional<Message> read_message(std::string_view words, Sender sender);

using Connection = uint64_t;  ///< a number never used twice

/// What the tracker wants to be sent to one node.
struct Outgoing {
    Connection to;
    Message message;
};

}  // namespace berth::pull::nodes
