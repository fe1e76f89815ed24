#include "runtime/base/channel.hh"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr uint32_t magic = 0x48545242;  // "BRTH" in memory on a little-endian machine

struct Header {
    uint32_t magic;
    uint16_t version;
    uint16_t type;
    uint64_t length;
};
static_assert(sizeof(Header) == 16);

[[noreturn]] void malformed(const std::string& why) {
    throw Error("reading a message of berth's plugin or helper: " + why);
}

void append_u32(std::string& out, size_t value) {
    auto number = static_cast<uint32_t>(value);
    out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::vector<std::pair<std::string, std::string>> records_of(std::string_view body, size_t limit) {
    std::vector<std::pair<std::string, std::string>> out;
    while (!body.empty()) {
        if (out.size() == limit) malformed(cat("it has more than ", limit, " records"));
        uint32_t lengths[2];
        if (body.size() < sizeof lengths) malformed("a record is cut off");
        std::memcpy(lengths, body.data(), sizeof lengths);
        body.remove_prefix(sizeof lengths);
        if (uint64_t{lengths[0]} + lengths[1] > body.size()) malformed("a record is longer than its message");
        out.emplace_back(body.substr(0, lengths[0]), body.substr(lengths[0], lengths[1]));
        body.remove_prefix(size_t{lengths[0]} + lengths[1]);
    }
    return out;
}

/// Waits for `events`; false when the deadline has passed.
class Deadline {
  public:
    explicit Deadline(int timeout_ms)
        : endless_(timeout_ms < 0), end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)) {}

    void wait(int socket, short events, const char* doing) const {
        for (;;) {
            auto left =
                std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now()).count();
            if (!endless_ && left <= 0) throw SysError(doing, ETIMEDOUT);
            pollfd entry{socket, events, 0};
            int count = ::poll(&entry, 1, endless_ ? -1 : static_cast<int>(left));
            if (count > 0) return;
            if (count < 0 && errno != EINTR) throw SysError(doing);
        }
    }

  private:
    bool endless_;
    std::chrono::steady_clock::time_point end_;
};

/// Takes over every descriptor that came with a packet, so that none can leak whatever happens next.
void collect_descriptors(msghdr& header, std::vector<Fd>& out) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
            int fd;
            std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
            out.emplace_back(fd);
        }
    }
}

}  // namespace

std::optional<std::string> Message::find(std::string_view key) const {
    for (const auto& [name, value] : records)
        if (name == key) return value;
    return std::nullopt;
}

std::string Message::value(std::string_view key) const {
    if (auto found = find(key)) return *found;
    malformed(cat("it has no ", printable(key), "; install the plugin and berth from the same release"));
}

uint64_t Message::number(std::string_view key, uint64_t limit) const {
    uint64_t out = 0;
    if (!parse_number(value(key), limit, out)) malformed(cat("its ", printable(key), " is no number in range"));
    return out;
}

std::vector<std::string> Message::all(std::string_view key) const {
    std::vector<std::string> out;
    for (const auto& [name, value] : records)
        if (name == key) out.push_back(value);
    return out;
}

std::vector<std::string> packets_of(const Message& message) {
    uint64_t length = 0;
    for (const auto& [key, value] : message.records) length += 8 + uint64_t{key.size()} + value.size();
    if (length > message_limit)
        throw Error(cat("a message of ", length, " bytes is longer than berth's limit of ", message_limit));

    Header header{magic, message.version, message.type, length};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.reserve(sizeof header + length);
    for (const auto& [key, value] : message.records) {
        append_u32(bytes, key.size());
        append_u32(bytes, value.size());
        bytes += key;
        bytes += value;
    }
    std::vector<std::string> out;
    for (size_t start = 0; start < bytes.size(); start += packet_limit)
        out.push_back(bytes.substr(start, packet_limit));
    return out;
}

bool Assembler::add(std::string_view packet) {
    if (packet.size() > limits_.packet) malformed("a packet is too long");
    if (!started_) {
        Header header;
        if (packet.size() < sizeof header) malformed("its header is cut off");
        std::memcpy(&header, packet.data(), sizeof header);
        if (header.magic != magic) malformed("it does not start as one");
        if (header.length > limits_.message) malformed("it is too long");
        type_ = header.type;
        version_ = header.version;
        length_ = header.length;
        body_.clear();
        packet.remove_prefix(sizeof header);
        started_ = true;
    } else if (packet.empty()) {
        malformed("a packet is empty");
    }
    if (packet.size() > length_ - body_.size()) malformed("it is longer than it says");
    body_ += packet;
    return body_.size() == length_;
}

Message Assembler::take() {
    started_ = false;
    Message out;
    out.type = type_;
    out.version = version_;
    out.records = records_of(body_, limits_.records);
    body_.clear();
    return out;
}

Inbox::Status Inbox::read(int socket) {
    std::string buffer(limits_.packet, '\0');
    for (;;) {
        alignas(cmsghdr) char control[CMSG_SPACE(descriptor_limit * sizeof(int))];
        iovec part{buffer.data(), buffer.size()};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        header.msg_control = control;
        // What has no room here is closed by the kernel, which tells so by MSG_CTRUNC.
        header.msg_controllen = limits_.descriptors > 0 ? CMSG_LEN(limits_.descriptors * sizeof(int)) : 0;
        ssize_t size = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return Status::nothing;
        if (size < 0 && errno == ECONNRESET) return Status::closed;
        if (size < 0) throw SysError("receiving a message");
        if (size == 0) return Status::closed;

        bool first = assembler_.fresh();
        size_t before = descriptors_.size();
        collect_descriptors(header, descriptors_);
        if (header.msg_flags & MSG_TRUNC) malformed("a packet is too long");
        if (header.msg_flags & MSG_CTRUNC) malformed("it carries too many descriptors");
        if (!first && descriptors_.size() != before) malformed("it carries descriptors after its first packet");
        if (assembler_.add({buffer.data(), static_cast<size_t>(size)})) return Status::message;
    }
}

Received Inbox::take() {
    return {assembler_.take(), std::exchange(descriptors_, {})};
}

void Outbox::push(const Message& message, const std::vector<int>& descriptors) {
    if (descriptors.size() > descriptor_limit) throw Error("too many descriptors beside one message");
    bool first = true;
    for (auto& bytes : packets_of(message)) {
        packets_.push_back({std::move(bytes), first ? descriptors : std::vector<int>{}});
        first = false;
    }
}

bool Outbox::flush(int socket) {
    while (!packets_.empty()) {
        Packet& packet = packets_.front();
        alignas(cmsghdr) char control[CMSG_SPACE(descriptor_limit * sizeof(int))] = {};
        iovec part{packet.bytes.data(), packet.bytes.size()};
        msghdr header{};
        header.msg_iov = &part;
        header.msg_iovlen = 1;
        if (size_t size = packet.descriptors.size() * sizeof(int); size > 0) {
            header.msg_control = control;
            header.msg_controllen = CMSG_SPACE(size);
            cmsghdr* rights = CMSG_FIRSTHDR(&header);
            rights->cmsg_level = SOL_SOCKET;
            rights->cmsg_type = SCM_RIGHTS;
            rights->cmsg_len = CMSG_LEN(size);
            std::memcpy(CMSG_DATA(rights), packet.descriptors.data(), size);
        }
        ssize_t sent = ::sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && errno == EAGAIN) return false;
        if (sent < 0) throw SysError("sending a message");
        packets_.pop_front();
    }
    return true;
}

std::pair<Fd, Fd> make_channel() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw SysError("making a socket pair");
    return {Fd(ends[0]), Fd(ends[1])};
}

void send_message(int socket, const Message& message, const std::vector<int>& descriptors, int timeout_ms) {
    Outbox outbox;
    outbox.push(message, descriptors);
    Deadline deadline(timeout_ms);
    while (!outbox.flush(socket)) deadline.wait(socket, POLLOUT, "sending a message");
}

std::optional<Received> receive_message(int socket, int timeout_ms) {
    Inbox inbox;
    Deadline deadline(timeout_ms);
    for (;;) {
        Inbox::Status status = inbox.read(socket);
        if (status == Inbox::Status::message) return inbox.take();
        if (status == Inbox::Status::closed) return std::nullopt;
        deadline.wait(socket, POLLIN, "waiting for a message");
    }
}

}  // namespace berth
