// The nodes of a step that want one image in one way: who they are, what the tracker tells them, and when. What a node
// is to take from whom is a policy, of which there are two. Pure: the tracker hands it messages and the time.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

class Swarm {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// What the tracker knows of the step beside these nodes.
    struct Step {
        unsigned seen = 0;     ///< nodes that have said Hello to anybody
        unsigned missing = 0;  ///< those that have not
    };

    virtual ~Swarm() = default;
    Swarm(const Swarm&) = delete;
    Swarm& operator=(const Swarm&) = delete;

    /// What is to be sent goes to `out`.
    void take(Connection from, const Message& message, Time now, Step step, std::vector<Outgoing>& out);
    void lost(Connection from, Time now, Step step, std::vector<Outgoing>& out);
    void tick(Time now, Step step, std::vector<Outgoing>& out);

    /// Nobody is connected.
    bool is_empty() const { return places_.empty(); }
    /// It is worth keeping when it is empty.
    virtual bool is_kept() const { return false; }

  protected:
    enum class Stage : uint8_t {
        waiting,   ///< has said Hello
        asked,     ///< is to bring the documents
        told,      ///< has the documents, and is to say what it has
        ready,     ///< can have a plan
        planned,   ///< has its plan
        finished,  ///< has everything, and serves
        alone,     ///< pulls everything by itself
        gone,      ///< connection lost, or released at the end
    };
    static constexpr size_t stages = 8;
    struct Member {
        Connection connection = 0;
        Peer self;
        unsigned rank = 0;  ///< in the step
        uint64_t link = 0;  ///< Mbit/s; 0: not known
        Stage stage = Stage::waiting;
        std::optional<unsigned> number;  ///< in the plan
    };

    Swarm() = default;

    // The policy. Nodes are named by their place in members_.

    /// There is one more member.
    virtual void add_node() {}
    /// It is of this release, and is to be made ready in the end.
    virtual void come(unsigned place) = 0;
    virtual bool is_time_to_plan(Step step) const = 0;
    /// Those that are ready have their numbers, and stand in to_plan_, who is owed a plan.
    virtual void make_plan() {}
    virtual void send_plan(unsigned place) = 0;
    /// A message of a node that does not pull everything by itself; not Hello.
    virtual void hear(unsigned place, const Message& message) = 0;
    /// Its connection has ended, or it has given up, in that stage.
    virtual void left(unsigned place, Stage before) = 0;
    /// Called at least every 100 ms.
    virtual void look() {}
    /// Nobody who was here serves any more: what follows begins anew.
    virtual void restart();
    /// What else is owed to somebody.
    virtual void send_rest() {}

    void send(unsigned place, Message message);
    void move(unsigned place, Stage stage);
    size_t count(std::initializer_list<Stage> wanted) const;
    bool is_present(unsigned place) const { return members_[place].stage < Stage::alone; }
    void finish(unsigned place);
    void leave(unsigned place);
    void leave_alone(unsigned place, const std::string& reason);

    /// Large messages made in one call: those of 10,000 nodes at once would take gigabytes.
    static constexpr size_t at_once = 128;

    std::vector<Member> members_;
    std::vector<unsigned> numbered_;  ///< places of the plan's numbers
    std::deque<unsigned> to_plan_;
    bool is_planned_ = false;
    unsigned finished_ = 0;  ///< some may be gone since
    Time now_{};             ///< of a call
    Time first_arrival_{}, last_arrival_{}, last_message_{};

  private:
    void add(Connection from, const Hello& hello);
    void begin();
    void send_plans();
    void settle(Step step);
    void end();

    std::vector<Outgoing>* out_ = nullptr;             ///< during a call
    std::unordered_map<Connection, unsigned> places_;  ///< of those that are connected
    std::array<size_t, stages> counts_{};
};

}  // namespace berth::pull::nodes
