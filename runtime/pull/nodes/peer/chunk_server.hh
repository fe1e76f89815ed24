// Serves what a node has to the other nodes of its step, over HTTPS by libmicrohttpd.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/pull/nodes/chunks/chunk_stream.hh"
#include "runtime/pull/nodes/peer/identity.hh"

namespace berth::pull::nodes {

struct ServerSettings {
    Identity identity;
    std::string token;         ///< see client_token()
    std::string address = {};  ///< of this node's, at which alone it is reached; empty: at all of them
    uint16_t first_port = 0;   ///< 0: any that is free
    uint16_t last_port = 0;
    uint64_t rate = 0;         ///< bytes a second, of all connections together; 0: no limit
    unsigned connections = 512;  ///< of nodes of the step at most; fewer where the process may open few files
};

/// Answers a GET with the token by the offer that the path's first word names.
///
/// Who has not begun to speak TLS, and then, who has shown no token, has ten seconds for that, and a bound in number.
class ChunkServer {
  public:
    /// Raises the limit of open files. Throws Error when no port of the range is free.
    explicit ChunkServer(ServerSettings settings);
    /// Ends all connections, and the threads with them.
    ~ChunkServer();
    ChunkServer(const ChunkServer&) = delete;
    ChunkServer& operator=(const ChunkServer&) = delete;

    uint16_t port() const;
    void offer(std::shared_ptr<const Offer> offer);
    /// Bytes of chunks that were sent.
    uint64_t sent() const;
    /// Connections that are being served now.
    unsigned active() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::pull::nodes
