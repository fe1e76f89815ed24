// A step's nodes as the tracker sees them, for tests: what is said to it, and what it answers.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/nodes/tracker/tracker.hh"

namespace berth::pull::nodes {

inline const Digest image_a("sha256:" + std::string(64, 'a')), image_b("sha256:" + std::string(64, 'b'));
inline const Digest chunks_one("sha256:" + std::string(64, '1')), chunks_two("sha256:" + std::string(64, '2'));
constexpr uint64_t mega = 1 << 20;

inline std::string key_of(unsigned node) {
    std::string hash = std::to_string(node);
    return cat("sha256//", oci::encode_base64(hash + std::string(32 - hash.size(), 'k')));
}

/// To a node: it is to ask the registry for the documents.
struct Fetch {};
/// Done with a seal.
struct Complete {
    Digest chunks;
};

/// The message when it is one of this kind. Documents without any are a Fetch, Done with a seal is a Complete.
template <typename Kind>
std::optional<Kind> as(const Message& message) {
    const auto* documents = std::get_if<Documents>(&message);
    const auto* done = std::get_if<Done>(&message);
    if constexpr (std::is_same_v<Kind, Fetch>)
        return documents != nullptr && documents->documents.empty() ? std::optional(Fetch{}) : std::nullopt;
    else if constexpr (std::is_same_v<Kind, Complete>)
        return done != nullptr && done->sum ? std::optional(Complete{done->sum->chunks}) : std::nullopt;
    else if (const auto* it = std::get_if<Kind>(&message);
             it != nullptr && !(done != nullptr && done->sum) &&
             !(documents != nullptr && documents->documents.empty()))
        return *it;
    return std::nullopt;
}

/// Nodes are numbered from 1; their rank is one less.
class Scene {
  public:
    using Time = Tracker::Time;

    explicit Scene(unsigned nodes) : tracker(nodes) {}

    void say(unsigned node, const Message& message) { take(tracker.take(node, message, now)); }
    void hello(unsigned node, const Digest& image = image_a, uint64_t link = 0) {
        Peer self{cat("n", node), cat("192.0.2.", node % 250), 4000, key_of(node)};
        say(node, Hello{self, node - 1, image, release, link});
    }
    void documents(unsigned node) { say(node, Documents{{{image_a, "application/json", "{}"}}}); }
    void have(unsigned node, const std::string& flags) {
        Have out;
        for (char flag : flags) {
            out.sizes.push_back(unit * (1 + out.sizes.size()));
            out.has.push_back(flag == '1');
        }
        say(node, out);
    }
    /// Nodes 1 to the number of `flags` come, and say what they have.
    void all_come(const std::vector<std::string>& flags) {
        for (unsigned node = 1; node <= flags.size(); ++node) hello(node);
        documents(1);
        for (unsigned node = 1; node <= flags.size(); ++node) have(node, flags[node - 1]);
    }
    void sealed(unsigned node, unsigned layer, const Digest& chunks = chunks_one) {
        say(node, Done{layer, LayerSum{9, chunks}});
    }
    void lost(unsigned node) { take(tracker.lost(node, now)); }
    void pass(unsigned milliseconds) {
        for (unsigned passed = 0; passed < milliseconds; passed += 10) {
            now += std::chrono::milliseconds(10);
            for (auto out = tracker.tick(now); !out.empty(); out = tracker.tick(now)) take(out);
        }
    }

    template <typename Kind>
    std::vector<Kind> all(unsigned node) {
        std::vector<Kind> out;
        for (const Message& message : got[node])
            if (auto it = as<Kind>(message)) out.push_back(*it);
        return out;
    }
    template <typename Kind>
    size_t count(unsigned node) {
        return all<Kind>(node).size();
    }
    /// The last role that the node was given for the layer, with its sources as names; "own" for an owner.
    std::string role(unsigned node, unsigned layer, unsigned stripe = 0) {
        std::string out = "none";
        for (const Message& message : got[node]) {
            if (const auto* plan = std::get_if<Plan>(&message))
                out = text_of(plan->layers.at(layer), plan->peers, stripe);
            if (const auto* later = std::get_if<NewRole>(&message); later != nullptr && later->layer == layer)
                out = text_of(later->role, later->peers, stripe);
        }
        return out;
    }
    /// Who was last told to own the layer, among nodes 1 to `nodes`.
    std::vector<unsigned> owners(unsigned layer, unsigned nodes) {
        std::vector<unsigned> out;
        for (unsigned node = 1; node <= nodes; ++node)
            if (role(node, layer) == "own") out.push_back(node);
        return out;
    }
    /// Who owns one of the layers, or is the first source of somebody, among nodes 1 to `nodes`.
    std::vector<unsigned> serving(unsigned layers, unsigned nodes) {
        std::set<unsigned> out;
        for (unsigned node = 1; node <= nodes; ++node)
            for (unsigned layer = 0; layer < layers; ++layer)
                for (unsigned stripe = 0; stripe < stripe_count; ++stripe) {
                    std::string first = role(node, layer, stripe).substr(0, 3);
                    out.insert(first == "own" ? node : static_cast<unsigned>(std::stoul(first.substr(1))));
                }
        return {out.begin(), out.end()};
    }

    Tracker tracker;
    uint64_t unit = mega;  ///< size of the first layer; each further one has one more
    Time now = Time{} + std::chrono::hours(1);
    std::map<uint64_t, std::vector<Message>> got;

  private:
    void take(const std::vector<Outgoing>& messages) {
        for (const Outgoing& outgoing : messages) got[outgoing.to].push_back(outgoing.message);
    }
    static std::string text_of(const LayerRole& role, const std::vector<Peer>& peers, unsigned stripe) {
        std::string out = role.is_owner ? "own" : "";
        for (unsigned source : role.sources[stripe]) out += cat(out.empty() ? "" : " ", peers.at(source).node);
        return out;
    }
};

}  // namespace berth::pull::nodes
