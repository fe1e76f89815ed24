// Requests to other nodes of the step, by libcurl.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/pull/share/messages.hh"

namespace berth::pull::share {

/// For one thread. Keeps its connections from request to request.
class PeerRequests {
  public:
    PeerRequests();
    ~PeerRequests();
    PeerRequests(const PeerRequests&) = delete;
    PeerRequests& operator=(const PeerRequests&) = delete;

    struct Request {
        const Peer& peer;
        std::string path;
        const std::string& token;  ///< see client_token()
        std::vector<std::string> headers = {};
        std::function<bool(std::string_view)> take = {};  ///< of the answer's bytes; false to leave the node
        std::function<bool()> should_leave = {};          ///< asked some times a second
    };
    struct Answer {
        std::string problem;        ///< why it did not come whole; empty: it did
        bool is_refused = false;    ///< the node answered, and with an error
    };
    /// Throws what `take` throws, and Error when libcurl cannot be used.
    Answer get(const Request& request);

  private:
    void* curl_;
};

}  // namespace berth::pull::share
