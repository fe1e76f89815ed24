// The nodes of a step that share one image: who they are, what each has, who brings each layer. Pure: the tracker hands
// it messages and the time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

/// How long what is awaited.
struct Patience {
    std::chrono::milliseconds quiet{500};   ///< after the last Hello or Have, before the plan is made
    std::chrono::milliseconds alone{150};   ///< the same, when only one node has come
    std::chrono::milliseconds longest{3000};  ///< after the first Have
    std::chrono::milliseconds fetch{15'000};  ///< for the documents, before another node is asked too
    std::chrono::milliseconds end{2000};      ///< after the last message, for nodes that have not come yet
    std::chrono::milliseconds silence{20'000};  ///< for a word of a node that has its plan
    std::chrono::milliseconds stall{20'000};    ///< for a byte of a layer that nobody brings, or has more of
    std::chrono::milliseconds sent{60'000};     ///< the same where a node has more of it
};

class Swarm {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// `missing` is how many of the step's nodes have not said Hello to anybody yet. What is to be sent goes to `out`.
    void take(Connection from, const Message& message, Time now, unsigned missing, std::vector<Outgoing>& out);
    void lost(Connection from, Time now, unsigned missing, std::vector<Outgoing>& out);
    void tick(Time now, unsigned missing, std::vector<Outgoing>& out);

    /// Nobody is connected.
    bool is_empty() const { return places_.empty(); }
    /// Those that come later need not ask the registry for them.
    bool has_documents() const { return documents_.has_value(); }

  private:
    enum class Stage : uint8_t {
        waiting,   ///< has said Hello
        asked,     ///< is to bring the documents
        told,      ///< has the documents, and is to say what it has
        ready,     ///< has said so
        planned,   ///< has its plan
        finished,  ///< has everything, and serves
        alone,     ///< pulls everything by itself
        gone,      ///< connection lost, or released at the end
    };
    static constexpr size_t stages = 8;
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
    struct Member {
        Connection connection = 0;
        Peer self;
        unsigned rank = 0;               ///< in the step
        uint64_t link = 0;               ///< Mbit/s; 0: not known
        Stage stage = Stage::waiting;
        bool was_asked = false;          ///< for the documents
        bool is_distrusted = false;      ///< two nodes complained
        bool is_slow = false;            ///< nobody takes from it who need not
        bool is_silent = false;          ///< nothing is heard of it: it stands still, or the network does
        Time heard{};                    ///< since it has its plan
        std::vector<Awaited> awaited;    ///< by layer; empty where it has not told
        unsigned other_reports = 0;      ///< in a row, that say the contrary of is_slow
        unsigned holding_reports = 0;    ///< in a row, that say that the others wait for it
        std::vector<uint8_t> layers;     ///< flags
        std::optional<unsigned> number;  ///< in the plan
        Time measured{};                 ///< when `progress` was
        Time has_sent{};                 ///< when it last had sent more than before
        Progress progress;
        uint64_t rate = 0;               ///< bytes a second, from wherever
        uint64_t total = 0;              ///< bytes of the layers that it lacked at first, as the registry has them
    };
    struct Layer {
        uint64_t size = 0;
        std::optional<unsigned> owner;  ///< its place
        std::optional<LayerSeal> seal;
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

    // Members.
    void move(unsigned place, Stage stage);
    size_t count(std::initializer_list<Stage> wanted) const;
    bool is_present(const Member& member) const { return member.stage < Stage::alone; }
    bool lacks(unsigned place, unsigned layer) const;
    bool needs(unsigned layer) const;
    void add(Connection from, const Hello& hello, Time now);
    void leave(unsigned place);
    void restart();

    // Until the plan.
    void ask_for_documents(unsigned place);
    void ask_next();
    void take_documents(unsigned place, const Documents& documents);
    void documents_failed(unsigned place, const std::string& reason);
    void take_have(unsigned place, const Have& have, Time now);
    bool is_time_to_plan(Time now, unsigned missing) const;
    uint64_t usual_link() const;
    void make_plan();

    // The plan.
    void send_documents();
    void send_plans();
    void send_plan(unsigned place);
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
    void take_complaint(unsigned place, const Complaint& complaint, Time now);
    void distrust(unsigned place);
    void take_progress(unsigned place, const Progress& progress, Time now);
    void take_finished(unsigned place);
    void replace_owner(unsigned layer);
    std::optional<unsigned> holder(unsigned layer) const;
    std::optional<unsigned> next_owner(unsigned layer) const;
    void tell_roles(unsigned layer);
    void tell_role(unsigned layer, unsigned place);
    void give_up(unsigned layer);
    void leave_alone(unsigned place, const std::string& reason);
    void leave_alone(unsigned place, unsigned layer, const std::string& reason);
    void look_around(Time now);
    void judge_speed(unsigned place, Time now);
    void take_children(unsigned place);
    void judge_owner(unsigned place, Time now);
    void take_over_from(unsigned place, Time now);
    double seconds_left(unsigned place, Time now) const;
    void note_layers(unsigned place, const std::vector<LayerProgress>& layers, Time now);
    void look_for_stalls(Time now);
    void fall_silent(unsigned place);
    void look_at_layer(unsigned layer, Time now);
    bool is_brought(const Layer& layer) const;
    bool is_stalled(unsigned layer, unsigned place, std::chrono::milliseconds patience, Time now) const;
    bool has_more(unsigned layer, unsigned place) const;
    std::set<unsigned> children(unsigned layer, unsigned place) const;
    void settle(Time now, unsigned missing);
    void end();

    void send(unsigned place, Message message);
    void dispatch(unsigned place, const Message& message, Time now);

    Patience patience_;
    std::vector<Outgoing>* out_ = nullptr;  ///< during a call
    std::vector<Member> members_;
    std::unordered_map<Connection, unsigned> places_;  ///< of those that are connected
    std::array<size_t, stages> counts_{};
    std::optional<Documents> documents_;
    unsigned failed_fetches_ = 0;
    std::string hopeless_;  ///< why everybody pulls alone; empty: they need not
    Time now_{};  ///< of a call
    Time asked_{}, first_have_{}, last_arrival_{}, last_message_{};
    bool is_planned_ = false;
    std::deque<unsigned> to_tell_, to_plan_;  ///< who is owed the documents, and a plan
    std::vector<unsigned> numbered_;  ///< places of the plan's numbers
    std::vector<LayerPlan> plan_;
    std::vector<Layer> layers_;
    unsigned finished_ = 0;  ///< some may be gone since
    StepStatus status_;
    uint64_t best_median_ = 0;  ///< of the nodes' rates, until now
    uint64_t middle_lag_ = 0;   ///< bytes that the node in the middle could have had, and has not
    std::optional<unsigned> teller_;  ///< who tells people of it
    Time looked_{}, looked_for_stalls_{};
};

}  // namespace berth::pull::share
