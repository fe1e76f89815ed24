// The nodes of a step that exchange the pieces of an image which has started already: who they are, in an order that
// all of them know. Pure: the tracker hands it messages and the time.
#pragma once
#include <chrono>
#include <vector>

#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

class Gathering {
  public:
    using Time = std::chrono::steady_clock::time_point;

    /// What the tracker knows of the step beside these nodes.
    struct Step {
        unsigned seen = 0;     ///< nodes that have said anything
        unsigned missing = 0;  ///< those that have not
    };

    /// What is to be sent goes to `out`. Who has gone is told to the others, so that all of them ask the same ones
    /// for what it was to bring.
    void take(Connection from, const Message& message, Time now, Step step, std::vector<Outgoing>& out);
    void lost(Connection from, Time now, Step step, std::vector<Outgoing>& out);
    void tick(Time now, Step step, std::vector<Outgoing>& out);

    /// Nobody is connected.
    bool is_empty() const;

  private:
    struct Member {
        Connection connection = 0;
        Peer self;
        unsigned rank = 0;
        bool is_finished = false, is_gone = false;
    };
    void enter(Connection from, const Hello& message, Time now, std::vector<Outgoing>& out);
    void settle(Time now, Step step, std::vector<Outgoing>& out);
    bool is_time(Time now, Step step) const;
    void tell(std::vector<Outgoing>& out);
    void tell_others(Connection from, const Message& message, std::vector<Outgoing>& out) const;

    std::vector<Member> members_;  ///< once it is told: those of the roster, in its order, then who came later
    std::vector<Done> proved_;
    std::vector<Peer> roster_;  ///< once it is told
    bool is_told_ = false;
    Time first_{}, last_{};
};

}  // namespace berth::pull::share
