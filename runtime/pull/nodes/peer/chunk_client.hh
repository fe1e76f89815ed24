// Asks other nodes of the step for chunks, by libcurl.
#pragma once
#include <functional>
#include <string>

#include "runtime/pull/nodes/chunks/chunk_reader.hh"
#include "runtime/pull/nodes/protocol/messages.hh"

namespace berth::pull::nodes {

/// For one thread. Keeps its connections from request to request.
class ChunkClient {
  public:
    ChunkClient();
    ~ChunkClient();
    ChunkClient(const ChunkClient&) = delete;
    ChunkClient& operator=(const ChunkClient&) = delete;

    struct Request {
        const Peer& peer;
        std::string path;                         ///< see request_path.hh
        const std::string& token;                 ///< see client_token()
        std::string here = {};                    ///< see here_header
        std::function<bool()> should_leave = {};  ///< asked some times a second
    };
    struct Answer {
        std::string problem;   ///< why it did not come whole; one line, without the node's name; empty: it did
        bool is_lost = false;  ///< the connection failed, and nothing is wrong with what came
    };
    /// Whoever says nothing for longest_silence is left. Throws what the reader's taker throws, but for WrongChunk,
    /// which is a problem of the node.
    Answer get(const Request& request, ChunkReader& reader);

  private:
    void* curl_;
};

}  // namespace berth::pull::nodes
