// Takes the connections of a port for a server that has a thread and keys for each of them: only those that have said
// what a TLS connection begins with reach it. Whoever is silent, or says it bit by bit, costs a descriptor and no more.
#pragma once
#include <sys/socket.h>

#include <functional>
#include <string_view>
#include <thread>
#include <unordered_map>

#include "runtime/base/fd.hh"
#include "runtime/pull/nodes/protocol/newcomers.hh"

namespace berth::pull::nodes {

/// Keeps a thread.
class Acceptor {
  public:
    struct Connection {
        Fd socket;
        sockaddr_storage from = {};
        socklen_t from_size = 0;
    };
    struct Settings {
        size_t newcomers = 512;  ///< connections that have not begun yet, at most
        std::function<void(Connection)> take;  ///< is handed one that has; in the acceptor's thread
        std::function<void()> look;            ///< called some times a second; the same
    };
    /// `listening` is made not to block. Throws SysError.
    Acceptor(Fd listening, Settings settings);
    ~Acceptor();
    Acceptor(const Acceptor&) = delete;
    Acceptor& operator=(const Acceptor&) = delete;

  private:
    void work();
    void take_new();
    void look_at(Newcomers::Id id);
    void drop(const std::vector<Newcomers::Id>& those);

    Fd listening_, epoll_, end_;  ///< `end_` can be read when the thread is to end
    Settings settings_;
    Newcomers newcomers_;
    std::unordered_map<Newcomers::Id, Connection> connections_;
    Newcomers::Id next_ = 2;  ///< 0 and 1 stand for `listening_` and `end_`
    std::thread thread_;
};

/// Whether the first bytes of a connection are the first message of TLS, up to its end.
enum class Begun { no, not_yet, yes };
Begun has_begun(std::string_view said);
/// As much of it as is looked at: what programs send has less than half.
inline constexpr size_t first_message_limit = 4096;


}  // namespace berth::pull::nodes
