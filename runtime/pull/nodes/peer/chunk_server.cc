#include "runtime/pull/nodes/peer/chunk_server.hh"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/base/throttle.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/peer/acceptor.hh"
#include "runtime/pull/nodes/protocol/newcomers.hh"
#include "runtime/pull/nodes/protocol/request_path.hh"

namespace berth::pull::nodes {

namespace {

/// What libmicrohttpd asks for at once, and the memory that a connection takes for it: a layer's chunk with its head.
constexpr size_t block_size = (64 << 10) + 4096;

/// Of GnuTLS. By default the client's order counts, in which curl has ChaCha20 before AES-128. That was a third of a
/// node's CPU time.
constexpr const char* tls_priorities =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:%SERVER_PRECEDENCE:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305";

Fd listening_socket(const ServerSettings& settings) {
    for (unsigned port = settings.first_port; port <= settings.last_port; ++port)
        if (Fd out = listen_at(static_cast<uint16_t>(port), settings.address)) return out;
    throw Error(cat("opening a port at which this node serves layers to the others of its step",
                    settings.address.empty() ? "" : cat(" (address ", settings.address, ")"), ": none of ",
                    settings.first_port, " to ", settings.last_port, " is free; see share.ports in berth.conf"));
}

/// Until the token of a connection that has begun is here.
constexpr auto token_patience = std::chrono::seconds(10);

}  // namespace

struct ChunkServer::Impl {
    explicit Impl(ServerSettings its)
        : settings(std::move(its)),
          room(room_in(raise_file_limit(), settings.connections)),
          throttle(settings.rate),
          newcomers(room.newcomers, token_patience) {}

    /// How many connections there can be, so that half of the files that this process may open are left for the pull.
    struct Room {
        size_t newcomers;  ///< that have not begun; and as many again that have, and have shown no token
        size_t known;
    };
    static Room room_in(size_t files, size_t wanted) {
        return {std::min<size_t>(files / 8, 512), std::min(files / 4, wanted)};
    }

    /// One answer under way.
    struct Answer {
        Impl* server;
        std::shared_ptr<const Offer> offer;
        std::unique_ptr<ChunkStream> stream;
    };

    MHD_Result answer(MHD_Connection* connection, const char* path, const char* method);
    static ssize_t fill(void* answer, uint64_t, char* out, size_t size);
    std::shared_ptr<const Offer> find(std::string_view name) {
        std::lock_guard lock(mutex);
        auto found = offers.find(name);
        return found == offers.end() ? nullptr : found->second;
    }
    bool is_allowed(MHD_Connection* connection);
    void take(Acceptor::Connection connection);
    void drop_overdue();
    static void note(void* its, MHD_Connection* connection, void** context, MHD_ConnectionNotificationCode what);
    static MHD_Result reply(MHD_Connection* connection, unsigned status);

    ServerSettings settings;
    Room room;
    Throttle throttle;
    MHD_Daemon* daemon = nullptr;
    std::unique_ptr<Acceptor> acceptor;
    uint16_t port = 0;
    std::mutex newcomers_mutex;  ///< of what follows
    Newcomers newcomers;         ///< that have shown no token
    std::unordered_map<Newcomers::Id, int> sockets;  ///< of all connections
    Newcomers::Id next_newcomer = 1;
    std::mutex mutex;  ///< of what follows
    std::map<std::string, std::shared_ptr<const Offer>, std::less<>> offers;
    std::atomic<size_t> taken = 0;  ///< connections that the library has, begun or not
    std::atomic<uint64_t> sent = 0;
    std::atomic<unsigned> active = 0;
    std::atomic<bool> is_ending = false;
};

bool ChunkServer::Impl::is_allowed(MHD_Connection* connection) {
    const char* said = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (said == nullptr || !oci::same_code(said, cat("Bearer ", settings.token))) return false;
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    std::lock_guard lock(newcomers_mutex);
    if (info != nullptr) newcomers.remove(reinterpret_cast<Newcomers::Id>(info->socket_context));
    return true;
}

/// The library closes the socket, whatever comes of it.
void ChunkServer::Impl::take(Acceptor::Connection connection) {
    // Those that are let go have their place a little longer.
    if (taken >= room.known + 2 * room.newcomers) return;
    ++taken;
    if (MHD_add_connection(daemon, connection.socket.release(), reinterpret_cast<sockaddr*>(&connection.from),
                           connection.from_size) != MHD_YES)
        --taken;
}

/// A connection has begun, or has ended: its socket is still open.
void ChunkServer::Impl::note(void* its, MHD_Connection* connection, void** context,
                             MHD_ConnectionNotificationCode what) {
    auto& self = *static_cast<Impl*>(its);
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    std::lock_guard lock(self.newcomers_mutex);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && info != nullptr) {
        *context = reinterpret_cast<void*>(self.next_newcomer);
        self.newcomers.add(self.next_newcomer, std::chrono::steady_clock::now());
        self.sockets.emplace(self.next_newcomer++, info->connect_fd);
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        self.newcomers.remove(reinterpret_cast<Newcomers::Id>(*context));
        self.sockets.erase(reinterpret_cast<Newcomers::Id>(*context));
        --self.taken;
    }
}

/// Whoever shows no token has no thread for long, however it goes about that.
void ChunkServer::Impl::drop_overdue() {
    std::lock_guard lock(newcomers_mutex);
    for (Newcomers::Id id : newcomers.take_overdue(std::chrono::steady_clock::now()))
        if (auto found = sockets.find(id); found != sockets.end()) ::shutdown(found->second, SHUT_RDWR);
}

MHD_Result ChunkServer::Impl::reply(MHD_Connection* connection, unsigned status) {
    MHD_Response* empty = MHD_create_response_from_buffer(0, nullptr, MHD_RESPMEM_PERSISTENT);
    MHD_Result out = MHD_queue_response(connection, status, empty);
    MHD_destroy_response(empty);
    return out;
}

MHD_Result ChunkServer::Impl::answer(MHD_Connection* connection, const char* path, const char* method) {
    if (!is_allowed(connection)) return reply(connection, MHD_HTTP_FORBIDDEN);
    auto offer = std::strcmp(method, MHD_HTTP_METHOD_GET) == 0 ? find(name_in(path)) : nullptr;
    const char* here = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, here_header);
    auto stream = offer ? offer->answer(path, here == nullptr ? "" : here) : nullptr;
    if (!stream) return reply(connection, MHD_HTTP_NOT_FOUND);
    ++active;
    auto end = [](void* its) {
        std::unique_ptr<Answer> ended(static_cast<Answer*>(its));
        --ended->server->active;
    };
    MHD_Response* response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, block_size, &Impl::fill, new Answer{this, std::move(offer), std::move(stream)}, end);
    MHD_Result out = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return out;
}

ssize_t ChunkServer::Impl::fill(void* its, uint64_t, char* out, size_t size) {
    auto& [server, offer, stream] = *static_cast<Answer*>(its);
    try {
        if (server->is_ending) return MHD_CONTENT_READER_END_WITH_ERROR;
        uint64_t before = stream->sent();
        auto filled = stream->fill(out, size);
        if (!filled) return MHD_CONTENT_READER_END_OF_STREAM;
        uint64_t part = stream->sent() - before;
        std::this_thread::sleep_until(server->throttle.turn(part));
        server->sent += part;
        return static_cast<ssize_t>(*filled);
    } catch (const std::exception&) {
        return MHD_CONTENT_READER_END_WITH_ERROR;  // the file cannot be read: the peer asks another node
    }
}

ChunkServer::ChunkServer(ServerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {
    Impl& impl = *impl_;
    Fd socket = listening_socket(impl.settings);
    impl.port = port_of(socket.get());
    auto answer = [](void* its, MHD_Connection* connection, const char* path, const char* method, const char*,
                     const char*, size_t*, void**) -> MHD_Result {
        try {
            return static_cast<Impl*>(its)->answer(connection, path, method);
        } catch (const std::exception&) {
            return MHD_NO;
        }
    };
    impl.daemon = MHD_start_daemon(
        MHD_USE_TLS | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_NO_LISTEN_SOCKET,
        0, nullptr, nullptr, answer, impl_.get(), MHD_OPTION_HTTPS_MEM_KEY, impl.settings.identity.key.c_str(),
        MHD_OPTION_HTTPS_MEM_CERT, impl.settings.identity.certificate.c_str(), MHD_OPTION_CONNECTION_LIMIT,
        // Never reached: take() counts, since 0.9.75 does not bear its own limit.
        static_cast<unsigned>(4 * (impl.room.known + 2 * impl.room.newcomers)), MHD_OPTION_CONNECTION_TIMEOUT, 30U,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, size_t{2 * block_size}, MHD_OPTION_THREAD_STACK_SIZE, size_t{256 << 10},
        MHD_OPTION_HTTPS_PRIORITIES, tls_priorities, MHD_OPTION_NOTIFY_CONNECTION, &Impl::note, impl_.get(),
        MHD_OPTION_END);
    if (impl.daemon == nullptr)
        throw Error(
            "serving layers to the other nodes of the step: libmicrohttpd cannot start (was it built with TLS?)");
    impl.acceptor = std::make_unique<Acceptor>(
        std::move(socket), Acceptor::Settings{.newcomers = impl.room.newcomers,
                                              .take = [&impl](Acceptor::Connection one) { impl.take(std::move(one)); },
                                              .look = [&impl] { impl.drop_overdue(); }});
}

ChunkServer::~ChunkServer() {
    impl_->is_ending = true;
    impl_->acceptor.reset();
    MHD_stop_daemon(impl_->daemon);
}

uint16_t ChunkServer::port() const { return impl_->port; }

void ChunkServer::offer(std::shared_ptr<const Offer> offer) {
    std::lock_guard lock(impl_->mutex);
    std::string name = offer->name();
    impl_->offers[name] = std::move(offer);
}

uint64_t ChunkServer::sent() const { return impl_->sent; }
unsigned ChunkServer::active() const { return impl_->active; }

}  // namespace berth::pull::nodes
