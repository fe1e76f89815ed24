// The connections of srun's tracker: lines that come, lines that are to go. Nothing blocks. Whoever does not read
// blocks nobody else.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/base/fd.hh"
#include "runtime/pull/nodes/protocol/newcomers.hh"

namespace berth::pull::nodes {

class Connections {
  public:
    using Id = uint64_t;  ///< a number never used twice
    using Clock = std::chrono::steady_clock;

    struct Arrived {
        Id from;
        std::optional<std::string> line;  ///< without its end; none: the connection has ended
    };

    /// `listening` does not block. Raises the limit of open files. Throws SysError.
    explicit Connections(Fd listening);

    /// Waits for what comes, at most `patience` (below 0: for ever). Of one that is not accepted a line is told, and
    /// the next one only when it was greeted; a stranger has said nothing behind its first line. Who has not been
    /// accepted ten seconds after it came is dropped, the oldest sooner where there are many. Throws SysError.
    std::vector<Arrived> wait(std::chrono::milliseconds patience);

    /// Its first line was a good one, which it may have heard from somebody else: it is to show that it knows more.
    /// False when it has gone.
    bool greet(Id connection);
    /// It is of the step: it may say longer lines, and lives.
    void accept(Id connection);
    /// One line, whose end is added. A connection whose lines are not read ends, which wait() tells.
    void send(Id connection, std::string_view line);
    /// Ends it once what is to go has gone. wait() does not tell.
    void close(Id connection);

    /// How many have been accepted.
    size_t accepted() const { return accepted_; }

  private:
    enum class Stage { stranger, greeted, accepted };
    struct Peer {
        Fd socket;
        Clock::time_point came;
        Stage stage = Stage::stranger;
        bool is_closing = false, is_writing = false;
        std::string in, out;
        size_t looked_at = 0;  ///< of `in`: no line end before
        size_t sent = 0;       ///< of `out`
    };

    void take_new();
    bool make_room();
    void drop_overdue();
    bool read(Id id, Peer& peer, std::vector<Arrived>& out);
    bool take_lines(Id id, Peer& peer, std::vector<Arrived>& out);
    bool write(Id id, Peer& peer);
    void wait_for(Id id, Peer& peer, bool writing);
    void end(Id id);

    Fd listening_, epoll_;
    Id next_ = 1;
    size_t limit_;
    size_t accepted_ = 0;
    std::unordered_map<Id, Peer> peers_;
    Newcomers strangers_, greeted_;
    std::vector<Id> resumed_;    ///< accepted, with lines that have not been told
    std::vector<Id> ended_;      ///< to be told
};

}  // namespace berth::pull::nodes
