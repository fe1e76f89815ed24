#include "tests/registry/server.hh"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::test {

namespace {

std::string read_head(int connection, const std::atomic<bool>& stop) {
    std::string head;
    char byte = 0;
    while (!head.ends_with("\r\n\r\n") && head.size() < 65536) {
        pollfd ready{connection, POLLIN, 0};
        while (::poll(&ready, 1, 100) == 0)
            if (stop) return {};
        if (::read(connection, &byte, 1) != 1) return {};
        head += byte;
    }
    return head;
}

HttpCall parse(const std::string& head) {
    HttpCall out;
    std::vector<std::string> lines = split(head, '\n');
    std::vector<std::string> words = split(trimmed(lines[0]), ' ');
    out.method = words[0];
    if (words.size() > 1) out.target = words[1];
    for (size_t i = 1; i < lines.size(); ++i)
        if (size_t colon = lines[i].find(':'); colon != std::string::npos)
            out.headers[lower(lines[i].substr(0, colon))] = trimmed(std::string_view(lines[i]).substr(colon + 1));
    return out;
}

std::string read_body(int connection, size_t size) {
    std::string out(size, '\0');
    size_t done = 0;
    for (ssize_t got = 1; done < size && got > 0; done += static_cast<size_t>(std::max<ssize_t>(got, 0)))
        got = ::read(connection, out.data() + done, size - done);
    out.resize(done);
    return out;
}

bool put(int connection, std::string_view bytes) {
    while (!bytes.empty()) {
        ssize_t sent = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
}

}  // namespace

void turn() {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
}

Server::Server(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_, generic, length) != 0 || ::listen(listener_, 64) != 0 ||
        ::getsockname(listener_, generic, &length) != 0)
        throw std::runtime_error("test server: cannot listen on 127.0.0.1");
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread(&Server::accept_all, this);
}

Server::~Server() {
    stop_ = true;
    acceptor_.join();
    for (std::thread& connection : connections_) connection.join();
    ::close(listener_);
}

std::string Server::host() const { return cat("127.0.0.1:", port_); }

std::vector<HttpCall> Server::calls() const {
    std::lock_guard lock(mutex_);
    return calls_;
}

std::vector<std::string> Server::log() const {
    std::vector<std::string> out;
    for (const HttpCall& call : calls()) out.push_back(cat(call.method, " ", call.target));
    return out;
}

size_t Server::count(const std::string& prefix) const {
    auto lines = log();
    return static_cast<size_t>(
        std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(prefix); }));
}

void Server::accept_all() {
    while (!stop_) {
        pollfd ready{listener_, POLLIN, 0};
        if (::poll(&ready, 1, 100) <= 0) continue;
        int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        if (connection < 0) continue;
        // A body behind its head would wait 40 ms for an acknowledgement.
        int yes = 1;
        ::setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        connections_.emplace_back(&Server::serve, this, connection);
    }
}

void Server::serve(int connection) {
    for (;;) {
        std::string head = read_head(connection, stop_);
        if (head.empty()) break;
        HttpCall call = parse(head);
        if (auto size = call.headers.find("content-length"); size != call.headers.end())
            call.body = read_body(connection, std::stoull(size->second));
        {
            std::lock_guard lock(mutex_);
            calls_.push_back(call);
        }
        turn();
        HttpReply reply = handler_(call);
        turn();
        if (reply.hang_up) break;
        send(connection, reply, call.method == "HEAD");
        if (reply.declared_size || reply.endless > 0) break;
    }
    ::close(connection);
}

bool Server::put_body(int connection, std::string_view bytes) {
    if (!put(connection, bytes)) return false;
    sent_ += bytes.size();
    return true;
}

void Server::send(int connection, const HttpReply& reply, bool head) {
    uint64_t size = reply.declared_size.value_or(reply.body.size() + reply.endless);
    std::string start = cat("HTTP/1.1 ", reply.status, " Scripted\r\nContent-Length: ", size, "\r\n");
    for (const std::string& header : reply.headers) start += header + "\r\n";
    if (!put(connection, start + "\r\n") || head) return;
    if (reply.trickle_ms == 0) {
        if (!put_body(connection, reply.body)) return;
    } else {
        for (char c : reply.body) {
            std::this_thread::sleep_for(std::chrono::milliseconds(reply.trickle_ms));
            if (stop_ || !put_body(connection, {&c, 1})) return;
        }
    }
    std::string filler(64 << 10, '\x1b');
    for (uint64_t left = reply.endless; left > 0 && !stop_;) {
        size_t part = std::min<uint64_t>(left, filler.size());
        if (!put_body(connection, std::string_view(filler).substr(0, part))) return;
        left -= part;
    }
}

std::string Content::add_blob(const std::string& bytes) {
    std::string digest = oci::sha256_of(bytes).text();
    blobs_[digest] = bytes;
    return digest;
}

std::string Content::add_manifest(const std::string& type, const std::string& bytes) {
    std::string digest = oci::sha256_of(bytes).text();
    manifests_[digest] = {type, bytes};
    return digest;
}

namespace {

/// The part that "bytes=FIRST-LAST" asks for, LAST being there or not; the whole for everything else.
HttpReply part_of(const std::string& bytes, const HttpCall& call) {
    unsigned long long first = 0, last = bytes.size() - 1;
    auto range = call.headers.find("range");
    if (range == call.headers.end() || std::sscanf(range->second.c_str(), "bytes=%llu-%llu", &first, &last) < 1)
        return {.body = bytes};
    if (first >= bytes.size() || last < first) return {.status = 416};
    last = std::min<unsigned long long>(last, bytes.size() - 1);
    return {.status = 206,
            .headers = {cat("Content-Range: bytes ", first, "-", last, "/", bytes.size())},
            .body = bytes.substr(first, last - first + 1)};
}

}  // namespace

HttpReply Content::answer(const HttpCall& call) const {
    std::string last = call.target.substr(call.target.rfind('/') + 1);
    if (call.target.find("/blobs/") != std::string::npos) {
        auto blob = blobs_.find(last);
        if (blob == blobs_.end()) return {.status = 404};
        HttpReply reply = sends_parts ? part_of(blob->second, call) : HttpReply{.body = blob->second};
        reply.headers.emplace_back("Content-Type: application/octet-stream");
        return reply;
    }
    auto list = referrers_.find(last);
    if (list != referrers_.end() && call.target.find("/referrers/") != std::string::npos)
        return {.headers = {"Content-Type: application/vnd.oci.image.index.v1+json"}, .body = list->second};
    if (auto tag = tags_.find(last); tag != tags_.end()) last = tag->second;
    auto manifest = manifests_.find(last);
    if (manifest == manifests_.end() || call.target.find("/manifests/") == std::string::npos)
        return {.status = 404, .body = R"({"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]})"};
    return {.headers = {"Content-Type: " + manifest->second.type, "Docker-Content-Digest: " + last,
                        "ETag: \"" + last + "\""},
            .body = manifest->second.bytes};
}

}  // namespace berth::test
