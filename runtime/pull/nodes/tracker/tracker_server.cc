#include "runtime/pull/nodes/tracker/tracker_server.hh"

#include <chrono>
#include <unordered_map>
#include <utility>

#include "runtime/base/random_word.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"
#include "runtime/pull/nodes/protocol/session.hh"
#include "runtime/pull/nodes/tracker/connections.hh"
#include "runtime/pull/nodes/tracker/tracker.hh"

namespace berth::pull::nodes {

namespace {

using Clock = Connections::Clock;
constexpr auto tick_time = std::chrono::milliseconds(50);

class Server {
  public:
    Server(Fd listening, const std::string& secret, unsigned nodes)
        : connections_(std::move(listening)), secret_(secret), agreement_(secret), tracker_(nodes) {}

    [[noreturn]] void run() {
        for (auto ticked = Clock::now();;) {
            bool is_idle = connections_.accepted() == 0;
            auto patience = is_busy_ ? std::chrono::milliseconds(0) : tick_time;
            if (is_idle) patience = std::chrono::milliseconds(-1);
            for (const Connections::Arrived& arrived : connections_.wait(patience)) take(arrived);
            if (!is_busy_ && Clock::now() - ticked < tick_time) continue;
            ticked = Clock::now();
            std::vector<Outgoing> out = tracker_.tick(ticked);
            is_busy_ = !out.empty();
            send(out);
        }
    }

  private:
    void take(const Connections::Arrived& arrived) {
        auto known = sessions_.find(arrived.from);
        if (!arrived.line) {
            if (known != sessions_.end()) lose(arrived.from);
        } else if (known != sessions_.end()) {
            take_message(arrived.from, known->second, *arrived.line);
        } else {
            greet(arrived.from, *arrived.line);
        }
    }

    /// A first line: of a node that shares, or one that asks for the digest and nothing else.
    void greet(Connection from, const std::string& line) {
        if (!Session::is_greeting(line)) {
            std::string answer = agreement_.answer(line);
            if (!answer.empty()) connections_.send(from, answer);
            return connections_.close(from);
        }
        Session session(Sender::tracker, secret_, random_word());
        if (!session.take_greeting(line)) return connections_.close(from);
        std::string answer = session.greeting();
        bool is_other_release = session.is_other_release();
        // It may have gone meanwhile.
        if (!is_other_release && !connections_.greet(from)) return;
        if (!is_other_release) sessions_.emplace(from, std::move(session));
        connections_.send(from, answer);
        if (is_other_release) connections_.close(from);
    }

    /// Who was greeted may have repeated what it has heard: the code of a message depends on this end's nonce as well.
    void take_message(Connection from, Session& session, const std::string& line) {
        auto words = session.unwrap(line);
        auto message = words ? read_message(*words, Sender::node) : std::nullopt;
        if (message) {
            connections_.accept(from);
            return send(tracker_.take(from, *message, Clock::now()));
        }
        connections_.close(from);
        lose(from);
    }

    void lose(Connection node) {
        sessions_.erase(node);
        send(tracker_.lost(node, Clock::now()));
    }

    void send(const std::vector<Outgoing>& messages) {
        for (const Outgoing& outgoing : messages)
            if (auto session = sessions_.find(outgoing.to); session != sessions_.end())
                connections_.send(outgoing.to, session->second.wrap(words_of(outgoing.message)));
        // More may wait for the next one.
        is_busy_ = is_busy_ || !messages.empty();
    }

    Connections connections_;
    std::string secret_;
    Agreement agreement_;
    Tracker tracker_;
    std::unordered_map<Connection, Session> sessions_;
    bool is_busy_ = false;
};

}  // namespace

void serve_tracker(Fd listening, const std::string& secret, unsigned nodes) {
    Server(std::move(listening), secret, nodes).run();
}

}  // namespace berth::pull::nodes
