// A small HTTP server on loopback, for tests: a scripted one that can misbehave in every way, and an honest registry on
// top of it.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace berth::test {

struct HttpCall {
    std::string method;
    std::string target;                          ///< path and query
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body = {};
};

struct HttpReply {
    long status = 200;
    std::vector<std::string> headers = {};
    std::string body = {};
    std::optional<uint64_t> declared_size = {};  ///< Content-Length, when it is to lie
    uint64_t endless = 0;                   ///< so many more bytes after the body, made on the way
    unsigned trickle_ms = 0;                ///< pause after each byte of the body
    bool hang_up = false;                   ///< close without any answer
};

/// What a thread did before its turn() has happened before what another one does after a later turn(). For tests whose
/// servers are asked by other programs: the order that comes by a process and a socket is none for the thread
/// sanitizer.
void turn();

/// Serves on 127.0.0.1 at a free port until destroyed. The handler runs in many threads.
class Server {
  public:
    using Handler = std::function<HttpReply(const HttpCall&)>;
    explicit Server(Handler handler);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    /// "127.0.0.1:PORT"
    std::string host() const;
    /// "GET /v2/..." of every request so far.
    std::vector<std::string> log() const;
    /// Those that start with `prefix`.
    size_t count(const std::string& prefix) const;
    std::vector<HttpCall> calls() const;
    /// Bytes of bodies that clients, and the sockets to them, have taken.
    uint64_t sent() const { return sent_; }

  private:
    void accept_all();
    void serve(int connection);
    void send(int connection, const HttpReply& reply, bool head);
    bool put_body(int connection, std::string_view bytes);

    Handler handler_;
    int listener_ = -1;
    unsigned port_ = 0;
    mutable std::mutex mutex_;
    std::vector<HttpCall> calls_;
    std::vector<std::thread> connections_;
    std::atomic<bool> stop_ = false;
    std::atomic<uint64_t> sent_ = 0;
    std::thread acceptor_;
};

struct Object {
    std::string type;
    std::string bytes;
};

/// The content of a registry, and the answers of an honest one. Changes are made before it serves.
class Content {
  public:
    /// Return the digest of what was added.
    std::string add_blob(const std::string& bytes);
    std::string add_manifest(const std::string& type, const std::string& bytes);
    void tag(const std::string& name, const std::string& digest) { tags_[name] = digest; }
    /// Has the referrers API, by which `index` is what is attached to the manifest.
    void refer(const std::string& digest, const std::string& index) { referrers_[digest] = index; }
    /// Makes the digest lead to other bytes.
    void replace_blob(const std::string& digest, const std::string& bytes) { blobs_[digest] = bytes; }

    HttpReply answer(const HttpCall& call) const;

    bool sends_parts = false;  ///< of blobs, where a part is asked for

  private:
    std::map<std::string, Object> manifests_;
    std::map<std::string, std::string> blobs_;
    std::map<std::string, std::string> tags_;
    std::map<std::string, std::string> referrers_;
};

}  // namespace berth::test
