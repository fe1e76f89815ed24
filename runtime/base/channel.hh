// Messages of key/value records over a SOCK_SEQPACKET socket, with descriptors beside them: how the plugin and its
// helper talk.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/fd.hh"

namespace berth {

/// What messages mean, as far as two releases could misunderstand each other (docs/adr/0099). Packets and records have
/// the same form in all versions.
inline constexpr uint16_t channel_version = 2;

/// A typed list of records. Keys may repeat; keys and values are binary-safe.
struct Message {
    uint16_t type = 0;
    std::vector<std::pair<std::string, std::string>> records;
    uint16_t version = channel_version;  ///< of its sender

    void add(std::string_view key, std::string_view value) { records.emplace_back(key, value); }
    void add_number(std::string_view key, uint64_t value) { records.emplace_back(key, std::to_string(value)); }

    /// The first value of `key`, or nothing.
    std::optional<std::string> find(std::string_view key) const;
    /// The first value of `key`; throws Error when there is none.
    std::string value(std::string_view key) const;
    /// As value(), for a decimal number up to `limit`; throws Error for anything else.
    uint64_t number(std::string_view key, uint64_t limit) const;
    /// All values of `key`, in order.
    std::vector<std::string> all(std::string_view key) const;
};

inline constexpr size_t packet_limit = 64 * 1024;          ///< bytes of one packet, its header included
inline constexpr size_t message_limit = 64 * 1024 * 1024;  ///< bytes of all records of one message
inline constexpr size_t descriptor_limit = 8;              ///< descriptors beside one message

/// What a receiver takes in of one message; a peer that sends more is malformed input.
struct ChannelLimits {
    size_t packet = packet_limit;           ///< bytes of one packet
    size_t message = message_limit;         ///< bytes of all records
    size_t records = SIZE_MAX;
    size_t descriptors = descriptor_limit;  ///< at most descriptor_limit; with 0 the kernel hands over none
};

/// The packets of `message` in the order they are to be sent. Throws Error when it is longer than message_limit.
///
/// The first packet starts with a header of 16 bytes in the byte order of the machine: u32 magic, u16 version, u16
/// type, u64 length of the body. The body goes on through all packets: for each record u32 length of the key, u32
/// length of the value, key, value.
std::vector<std::string> packets_of(const Message& message);

/// Puts one message together from packets.
class Assembler {
  public:
    Assembler() = default;
    explicit Assembler(const ChannelLimits& limits) : limits_(limits) {}
    /// Takes the next packet; true when the message is complete. Throws Error for anything that packets_of() would not
    /// make.
    bool add(std::string_view packet);
    /// The complete message; the next packet starts another one.
    Message take();
    /// True when the next packet is the first one of a message.
    bool fresh() const { return !started_; }

  private:
    ChannelLimits limits_;
    bool started_ = false;
    uint16_t type_ = 0, version_ = 0;
    size_t length_ = 0;
    std::string body_;
};

struct Received {
    Message message;
    std::vector<Fd> descriptors;
};

/// The receiving end of a socket that somebody else polls.
class Inbox {
  public:
    enum class Status { nothing, message, closed };
    Inbox() : Inbox(ChannelLimits()) {}
    explicit Inbox(const ChannelLimits& limits) : limits_(limits), assembler_(limits) {}
    /// Reads packets without waiting until a message is complete, nothing is there or the peer has gone. Throws Error
    /// for malformed input.
    Status read(int socket);
    /// The message after Status::message.
    Received take();

  private:
    ChannelLimits limits_;
    Assembler assembler_;
    std::vector<Fd> descriptors_;
};

/// The sending end of a socket that somebody else polls.
class Outbox {
  public:
    /// Queues a message; `descriptors` must stay open until it has been sent.
    void push(const Message& message, const std::vector<int>& descriptors = {});
    /// Sends without waiting; true when nothing is left. Throws SysError (EPIPE when the peer has gone).
    bool flush(int socket);
    bool empty() const { return packets_.empty(); }

  private:
    struct Packet {
        std::string bytes;
        std::vector<int> descriptors;
    };
    std::deque<Packet> packets_;
};

/// Both ends of a new connection, close-on-exec. Throws SysError.
std::pair<Fd, Fd> make_channel();

/// Sends a message, waiting at most `timeout_ms` in all (-1: for ever). Throws SysError; ETIMEDOUT when the time is
/// over.
void send_message(int socket, const Message& message, const std::vector<int>& descriptors = {}, int timeout_ms = -1);

/// Waits for the next message; nothing at the end of the connection, even in the middle of a message. Throws Error for
/// malformed input, SysError otherwise; ETIMEDOUT when the time is over.
std::optional<Received> receive_message(int socket, int timeout_ms = -1);

}  // namespace berth
