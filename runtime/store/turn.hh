// Turns at work that other processes would do as well, such as pulling an image: one does it, the others wait. Also
// between hosts, where a lock (flock) may be known to its own host only.
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/base/lock.hh"
#include "runtime/store/store.hh"

namespace berth::store {

/// For stores on network file systems. Times of files are the server's, so that the clocks of hosts are not compared.
struct TurnTimes {
    std::chrono::milliseconds renewed = std::chrono::seconds(10);  ///< how often a holder writes its file again
    /// The file of a holder that has not written it for so long is another's.
    std::chrono::milliseconds lost = std::chrono::seconds(60);
    std::chrono::milliseconds looked = std::chrono::seconds(1);   ///< how often those who wait look
    std::chrono::milliseconds settled = std::chrono::seconds(1);  ///< how long two who took one file may be apart
};

/// What a holder's file is to somebody who wants the turn.
enum class TurnState {
    held,     ///< it was written since the last look, or not long ago
    unclear,  ///< not written since the last looks: the server's time has to say for how long
    lost,     ///< its holder is gone
};
/// `unchanged` is how long the file has been seen as it is, by this process's clock; `age` is the server's time less
/// that of the file, where it was asked for.
TurnState state_of_turn(std::chrono::milliseconds unchanged, std::optional<std::chrono::milliseconds> age,
                        const TurnTimes& times);

/// The file by which a turn is known to other hosts, written again by a thread until it is destroyed, which removes it.
class HostTurn;

/// A turn that is held until this is destroyed; empty: another process has it.
class [[nodiscard]] Turn {
  public:
    Turn();
    explicit Turn(Lock lock, std::unique_ptr<HostTurn> file = nullptr);
    Turn(Turn&&) noexcept;
    ~Turn();
    explicit operator bool() const { return static_cast<bool>(lock_); }

  private:
    Lock lock_;
    std::unique_ptr<HostTurn> file_;  ///< goes first: who has the lock next looks for it
};

/// Wants the turn of a digest. It saves duplicate work; correctness never depends on it: where nothing can be locked or
/// written, everybody has the turn.
class TurnQueue {
  public:
    /// `store` has to stay.
    TurnQueue(const Store& store, const Digest& key) : TurnQueue(store, key, !store.locks_are_certain(), {}) {}
    /// Among hosts or not, whatever the file system is.
    TurnQueue(const Store& store, const Digest& key, bool among_hosts, const TurnTimes& times);
    ~TurnQueue();
    TurnQueue(const TurnQueue&) = delete;
    TurnQueue& operator=(const TurnQueue&) = delete;

    /// Empty while another process has the turn. To be called every pause(); takes TurnTimes::settled longer where a
    /// lost turn is taken. Afterwards what others have published is seen, also through the caches of a network file
    /// system.
    Turn try_take();
    /// As long as it takes.
    Turn take();
    std::chrono::milliseconds pause() const;
    /// "process 12 on host7": who has the turn, for messages only.
    std::string holder() const;

  private:
    struct Seen;
    std::unique_ptr<HostTurn> try_take_file();
    const Store& store_;
    Digest key_;
    bool among_hosts_;
    TurnTimes times_;
    std::unique_ptr<Seen> seen_;
};

}  // namespace berth::store
