// Nodes that want an image whole. One of them asks the registry for the documents; each layer has an owner, who brings
// it, and the others take it by two trees (plan.hh). Nodes and owners that are slow, silent or lost are found by what
// all tell, and others take their places.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/pull/nodes/policy/plan.hh"
#include "runtime/pull/nodes/policy/swarm.hh"

namespace berth::pull::nodes {

/// Timeouts.
struct Patience {
    std::chrono::milliseconds quiet{500};   ///< after the last Hello or Have, before the plan is made
    std::chrono::milliseconds alone{150};   ///< the same, when only one node has come
    std::chrono::milliseconds longest{3000};  ///< after the first Have
    std::chrono::milliseconds fetch{15'000};  ///< for the documents, before another node is asked too
    std::chrono::milliseconds silence{20'000};  ///< for a word of a node that has its plan
    std::chrono::milliseconds stall{20'000};    ///< for a byte of a layer that nobody brings, or has more of
    std::chrono::milliseconds sent{60'000};     ///< the same where a node has more of it
};

class TreeSwarm : public Swarm {
  public:
    bool is_kept() const override { return documents_.has_value(); }

  private:
    enum Flag : uint8_t {
        has = 1,      ///< all of the layer
        serves = 2,   ///< has been told to, or does so anyway as it receives
        failed = 4,   ///< could not bring it
        by_self = 8,  ///< pulls it as if there was nobody else
    };
    struct Awaited {
        LayerProgress progress;
        Time moved{};  ///< when it last had more than before, or did not ask for more
    };
    /// What is known of a node beside what Member has.
    struct Node {
        bool was_asked = false;          ///< for the documents
        bool is_distrusted = false;      ///< two nodes complained
        bool is_slow = false;            ///< nobody takes from it who need not
        bool is_silent = false;          ///< nothing is heard of it: it stands still, or the network does
        Time heard{};                    ///< since it has its plan
        std::vector<Awaited> awaited;    ///< by layer; empty where it has not told
        unsigned other_reports = 0;      ///< in a row, that say the contrary of is_slow
        unsigned holding_reports = 0;    ///< in a row, that say that the others wait for it
        std::vector<uint8_t> layers;     ///< flags
        Time measured{};                 ///< when `progress` was
        Time has_sent{};                 ///< when it last had sent more than before
        Progress progress;
        uint64_t rate = 0;               ///< bytes a second, from wherever
        uint64_t total = 0;              ///< bytes of the layers that it lacked at first, as the registry has them
    };
    struct Layer {
        uint64_t size = 0;
        std::optional<unsigned> owner;  ///< its place
        std::optional<LayerSum> sum;
        unsigned failures = 0;
        bool is_given_up = false;  ///< everybody pulls it alone
        std::optional<unsigned> slow_owner;  ///< its place; another one brings the layer too
        std::string reason;
        std::map<unsigned, std::map<unsigned, Time>> complaints;  ///< by place of the source: who, and when last
        std::map<unsigned, std::set<unsigned>> gone;  ///< by place of the source: whom it told that it will not have it
        Time since{};              ///< of this owner
    };
    /// A node's sources, as places of members.
    using Sources = std::array<std::vector<unsigned>, stripe_count>;

    // The policy.
    void add_node() override { nodes_.emplace_back(); }
    void come(unsigned place) override;
    bool is_time_to_plan(Step step) const override;
    void make_plan() override;
    void send_plan(unsigned place) override;
    void hear(unsigned place, const Message& message) override;
    void left(unsigned place, Stage before) override;
    void look() override;
    void restart() override;
    void send_rest() override;

    bool lacks(unsigned place, unsigned layer) const;
    bool needs(unsigned layer) const;

    // Until the plan.
    void ask_for_documents(unsigned place);
    void ask_next();
    void take_documents(unsigned place, const Documents& documents);
    void documents_failed(unsigned place, const std::string& reason);
    void take_have(unsigned place, const Have& have);
    uint64_t usual_link() const;

    // The plan.
    void own_what_nobody_has(unsigned place);
    Sources sources(unsigned layer, unsigned place) const;
    std::vector<unsigned> stripe_sources(unsigned layer, unsigned stripe, unsigned place) const;
    bool is_source(unsigned layer, unsigned source, unsigned place) const;
    LayerRole role(unsigned layer, unsigned place, std::vector<Peer>& peers, std::map<unsigned, unsigned>& known);
    void make_serve(unsigned layer, unsigned place);

    // Afterwards.
    void take_done(unsigned place, const Done& done);
    void take_failed(unsigned place, const Alone& message);
    void layer_failed(unsigned place, unsigned layer, const std::string& reason);
    void take_complaint(unsigned place, const Complaint& complaint);
    void distrust(unsigned place);
    void take_progress(unsigned place, const Progress& progress);
    void take_finished(unsigned place);
    void replace_owner(unsigned layer);
    std::optional<unsigned> holder(unsigned layer) const;
    std::optional<unsigned> next_owner(unsigned layer) const;
    void tell_roles(unsigned layer);
    void tell_role(unsigned layer, unsigned place);
    void give_up(unsigned layer);
    using Swarm::leave_alone;
    void leave_alone(unsigned place, unsigned layer, const std::string& reason);
    void look_around();
    void judge_speed(unsigned place);
    void take_children(unsigned place);
    void judge_owner(unsigned place);
    void take_over_from(unsigned place);
    double seconds_left(unsigned place) const;
    void note_layers(unsigned place, const std::vector<LayerProgress>& layers);
    void look_for_stalls();
    void fall_silent(unsigned place);
    void look_at_layer(unsigned layer);
    bool is_brought(const Layer& layer) const;
    bool is_stalled(unsigned layer, unsigned place, std::chrono::milliseconds patience) const;
    bool has_more(unsigned layer, unsigned place) const;
    std::set<unsigned> children(unsigned layer, unsigned place) const;

    Patience patience_;
    std::vector<Node> nodes_;  ///< as members_
    std::optional<Documents> documents_;
    unsigned failed_fetches_ = 0;
    std::string hopeless_;  ///< why everybody pulls alone; empty: they need not
    Time asked_{}, first_have_{};
    std::deque<unsigned> to_tell_;  ///< who is owed the documents
    std::vector<LayerPlan> plan_;
    std::vector<Layer> layers_;
    StepStatus status_;
    uint64_t best_median_ = 0;  ///< of the nodes' rates, until now
    uint64_t middle_lag_ = 0;   ///< bytes that the node in the middle could have had, and has not
    std::optional<unsigned> teller_;  ///< who tells people of it
    Time looked_{}, looked_for_stalls_{};
};

}  // namespace berth::pull::nodes
