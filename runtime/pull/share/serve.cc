#include "runtime/pull/share/serve.hh"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <unordered_map>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/base/throttle.hh"
#include "runtime/host/tcp_port.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/share/acceptor.hh"
#include "runtime/pull/share/newcomers.hh"
#include "runtime/pull/share/peer_request.hh"
#include "runtime/pull/share/request_path.hh"

namespace berth::pull::share {

namespace {

/// What libmicrohttpd asks for at once, and the memory that a connection takes for it: a piece with its head.
constexpr size_t block_size = piece_size + 4096;

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

struct LayerServer::Impl {
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
    struct Stream {
        Impl* server;
        std::shared_ptr<GrowingLayer> layer;
        unsigned stripe;
        uint32_t place;
        PieceHead head = {};
        uint32_t sent = 0;         ///< bytes of the piece
        bool in_piece = false;
        bool is_last = false;      ///< the head that says the end is out
    };
    /// One of an image that has started.
    struct ComingStream {
        Impl* server;
        ComingImage::Answer answer;
    };

    template <typename Its>
    MHD_Result stream(MHD_Connection* connection, Its* its, ssize_t (*filler)(void*, uint64_t, char*, size_t));
    MHD_Result answer_coming(MHD_Connection* connection, const char* path);
    static ssize_t fill_coming(void* stream, uint64_t, char* out, size_t size);
    MHD_Result answer(MHD_Connection* connection, const char* path, const char* method);
    std::shared_ptr<GrowingLayer> find(const std::string& hex) {
        std::lock_guard lock(mutex);
        auto found = layers.find(hex);
        return found == layers.end() ? nullptr : found->second;
    }
    bool is_allowed(MHD_Connection* connection);
    void take(Acceptor::Connection connection);
    void drop_overdue();
    static void note(void* its, MHD_Connection* connection, void** context, MHD_ConnectionNotificationCode what);
    static MHD_Result reply(MHD_Connection* connection, unsigned status);
    static ssize_t fill(void* stream, uint64_t, char* out, size_t size);
    ssize_t next(Stream& stream, char* out, size_t size);
    static void begin_piece(Stream& stream, char* out);

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
    std::map<std::string, std::shared_ptr<GrowingLayer>> layers;
    std::shared_ptr<ComingImage> coming;
    std::atomic<size_t> taken = 0;  ///< connections that the library has, begun or not
    std::atomic<uint64_t> sent = 0;
    std::atomic<unsigned> active = 0;
    std::atomic<bool> is_ending = false;
};

bool LayerServer::Impl::is_allowed(MHD_Connection* connection) {
    const char* said = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    if (said == nullptr || !oci::same_code(said, cat("Bearer ", settings.token))) return false;
    const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    std::lock_guard lock(newcomers_mutex);
    if (info != nullptr) newcomers.remove(reinterpret_cast<Newcomers::Id>(info->socket_context));
    return true;
}

/// The library closes the socket, whatever comes of it.
void LayerServer::Impl::take(Acceptor::Connection connection) {
    // Those that are let go have their place a little longer.
    if (taken >= room.known + 2 * room.newcomers) return;
    ++taken;
    if (MHD_add_connection(daemon, connection.socket.release(), reinterpret_cast<sockaddr*>(&connection.from),
                           connection.from_size) != MHD_YES)
        --taken;
}

/// A connection has begun, or has ended: its socket is still open.
void LayerServer::Impl::note(void* its, MHD_Connection* connection, void** context,
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
void LayerServer::Impl::drop_overdue() {
    std::lock_guard lock(newcomers_mutex);
    for (Newcomers::Id id : newcomers.take_overdue(std::chrono::steady_clock::now()))
        if (auto found = sockets.find(id); found != sockets.end()) ::shutdown(found->second, SHUT_RDWR);
}

MHD_Result LayerServer::Impl::reply(MHD_Connection* connection, unsigned status) {
    MHD_Response* empty = MHD_create_response_from_buffer(0, nullptr, MHD_RESPMEM_PERSISTENT);
    MHD_Result out = MHD_queue_response(connection, status, empty);
    MHD_destroy_response(empty);
    return out;
}

/// `its` is deleted at the end of the answer.
template <typename Its>
MHD_Result LayerServer::Impl::stream(MHD_Connection* connection, Its* its,
                                     ssize_t (*filler)(void*, uint64_t, char*, size_t)) {
    ++active;
    auto end = [](void* ended) {
        --static_cast<Its*>(ended)->server->active;
        delete static_cast<Its*>(ended);
    };
    MHD_Response* response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, block_size, filler, its, end);
    MHD_Result out = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return out;
}

MHD_Result LayerServer::Impl::answer_coming(MHD_Connection* connection, const char* path) {
    std::unique_lock lock(mutex);
    std::shared_ptr<ComingImage> image = coming;
    lock.unlock();
    const char* here = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, ComingImage::here_header);
    auto answer = image ? image->answer(path, here == nullptr ? "" : here) : std::nullopt;
    if (!answer) return reply(connection, MHD_HTTP_NOT_FOUND);
    return stream(connection, new ComingStream{this, std::move(*answer)}, fill_coming);
}

ssize_t LayerServer::Impl::fill_coming(void* its, uint64_t, char* out, size_t size) {
    auto& stream = *static_cast<ComingStream*>(its);
    try {
        if (stream.server->is_ending) return MHD_CONTENT_READER_END_WITH_ERROR;
        size_t part = stream.answer.fill(out, size);
        if (part == 0) return MHD_CONTENT_READER_END_OF_STREAM;
        std::this_thread::sleep_until(stream.server->throttle.turn(part));
        stream.server->sent += part;
        return static_cast<ssize_t>(part);
    } catch (const std::exception&) {
        return MHD_CONTENT_READER_END_WITH_ERROR;  // the file cannot be read: the peer asks another node
    }
}

MHD_Result LayerServer::Impl::answer(MHD_Connection* connection, const char* path, const char* method) {
    if (!is_allowed(connection)) return reply(connection, MHD_HTTP_FORBIDDEN);
    bool is_get = std::strcmp(method, MHD_HTTP_METHOD_GET) == 0;
    if (is_get && std::string_view(path).starts_with(ComingPath::start)) return answer_coming(connection, path);
    auto request = parse_layer_path(path);
    auto layer = request ? find(request->layer) : nullptr;
    if (!is_get || !layer) return reply(connection, MHD_HTTP_NOT_FOUND);
    return stream(connection, new Stream{this, layer, request->stripe, request->place}, fill);
}

ssize_t LayerServer::Impl::fill(void* its, uint64_t, char* out, size_t size) {
    auto& stream = *static_cast<Stream*>(its);
    try {
        return stream.server->next(stream, out, size);
    } catch (const std::exception&) {
        return MHD_CONTENT_READER_END_WITH_ERROR;  // the file cannot be read: the peer asks another node
    }
}

/// Writes the head of what comes next.
void LayerServer::Impl::begin_piece(Stream& stream, char* out) {
    stream.head = stream.layer->wait_for(stream.stripe, stream.place, word_time);
    stream.is_last = stream.head.index == PieceHead::complete || stream.head.index == PieceHead::gone;
    stream.in_piece = stream.head.size > 0;
    stream.sent = 0;
    std::array<char, PieceHead::wire_size> bytes = encode(stream.head);
    std::copy(bytes.begin(), bytes.end(), out);
}

ssize_t LayerServer::Impl::next(Stream& stream, char* out, size_t size) {
    if (is_ending) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (stream.is_last) return MHD_CONTENT_READER_END_OF_STREAM;
    // Head and bytes go together: a head of its own would be a packet of its own.
    size_t head = 0;
    if (!stream.in_piece) {
        if (size < PieceHead::wire_size) return 0;
        begin_piece(stream, out);
        if (is_ending) return MHD_CONTENT_READER_END_WITH_ERROR;
        head = PieceHead::wire_size;
        if (!stream.in_piece || size == head) return static_cast<ssize_t>(head);
    }
    size_t part = stream.layer->read(stream.head, stream.sent, out + head, size - head);
    std::this_thread::sleep_until(throttle.turn(part));
    sent += part;
    stream.sent += static_cast<uint32_t>(part);
    if (stream.sent == stream.head.size) stream.in_piece = false, ++stream.place;
    return static_cast<ssize_t>(head + part);
}

LayerServer::LayerServer(ServerSettings settings) : impl_(std::make_unique<Impl>(std::move(settings))) {
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

LayerServer::~LayerServer() {
    impl_->is_ending = true;
    impl_->acceptor.reset();
    MHD_stop_daemon(impl_->daemon);
}

uint16_t LayerServer::port() const { return impl_->port; }

void LayerServer::offer(std::shared_ptr<GrowingLayer> layer) {
    std::lock_guard lock(impl_->mutex);
    std::string hex(layer->diff_id().hex());
    impl_->layers[hex] = std::move(layer);
}

void LayerServer::offer(std::shared_ptr<ComingImage> image) {
    std::lock_guard lock(impl_->mutex);
    impl_->coming = std::move(image);
}

uint64_t LayerServer::sent() const { return impl_->sent; }
unsigned LayerServer::active() const { return impl_->active; }

}  // namespace berth::pull::share
