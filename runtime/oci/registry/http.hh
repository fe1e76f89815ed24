// One HTTP exchange over libcurl, with limits on time and size and without any of libcurl's conveniences that act on
// their own.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/oci/sink.hh"

namespace berth::oci {

/// No usable answer for now: name not found, refused, timed out, too slow, reset, TLS not trusted; or too many
/// requests, or a server's fault.
class Unreachable : public Error {
  public:
    /// `lasting`: asking again at once cannot help (a certificate that is not trusted, a server that speaks no TLS).
    /// `after`: the server's Retry-After.
    explicit Unreachable(const std::string& line, bool lasting = false, std::optional<std::chrono::seconds> after = {})
        : Error(line), lasting_(lasting), after_(after) {}

    bool lasting() const { return lasting_; }
    std::optional<std::chrono::seconds> after() const { return after_; }

  private:
    bool lasting_;
    std::optional<std::chrono::seconds> after_;
};

/// There is nobody at the address, or the name has none.
class NotConnected : public Unreachable {
  public:
    using Unreachable::Unreachable;
};

/// A server sends a blob from its start alone, whatever part of it is asked for.
class NoRanges : public Error {
  public:
    using Error::Error;
};

/// A body went past the limit it was asked with.
class TooLarge : public Error {
  public:
    using Error::Error;
};

struct HttpLimits {
    long connect_seconds = 10;
    long slow_bytes = 1000;        ///< an exchange that stays below so many bytes a second ...
    long slow_seconds = 30;        ///< ... for so long is given up
    size_t body_bytes = 64 << 10;  ///< read of an answer that is an error
};

/// A body that is too large for memory: the first `size` bytes of a file, which stays its owner's.
struct FileBody {
    int fd = -1;  ///< -1: there is none
    uint64_t size = 0;
    std::function<void(uint64_t)> sent = {};  ///< told how many more bytes have been read from it
};

struct HttpRequest {
    std::string url;
    bool head = false;
    std::vector<std::string> headers;  ///< "Name: value"
    std::string ca;                    ///< PEM file of trusted roots; empty: the system's
    std::string proxy;                 ///< for what is not on loopback; empty: the one of the usual variables, or none
    std::string no_proxy;              ///< hosts that `proxy` is not for
    std::optional<std::string> form;   ///< sent by POST, urlencoded
    std::string method;                ///< "PUT" or "POST", with `body`; empty: what the rest says
    std::string body;
    FileBody file = {};                ///< in place of `body`, of a PUT
    uint64_t until = 0;                ///< the sink wants nothing but the bytes from `from` to before this one; 0: to
                                       ///< the end
    uint64_t from = 0;                 ///< the sink wants the body from this byte on ...
    bool by_range = true;              ///< ... and the server is asked for nothing else
};

struct HttpAnswer {
    long status = 0;
    std::map<std::string, std::string> headers;  ///< names in lower case; of several of one name, all joined by ", "
    std::string body;                            ///< start of the body unless a sink took it

    /// The header's value, "" when absent.
    std::string header(const std::string& name) const;
};

/// Takes one line of an answer's head into `headers`, which are as HttpAnswer has them; a status line starts another
/// head. What is no header is left out. Pure.
void take_head_line(std::string_view line, std::map<std::string, std::string>& headers);

/// The first byte of `Content-Range: bytes FIRST-LAST/SIZE` (RFC 9110, section 14.4); nothing for anything else. Pure.
std::optional<uint64_t> range_start(std::string_view content_range);

/// A connection that is kept between requests. To be used by one thread at a time.
class Http {
  public:
    /// `stop`, when given, ends an exchange within a second of becoming true.
    explicit Http(const HttpLimits& limits, const std::atomic<bool>* stop = nullptr);
    ~Http();
    Http(const Http&) = delete;
    Http& operator=(const Http&) = delete;

    /// Does one request, following no redirect and reading no netrc. The body of a 200 goes to `sink`; without one, and
    /// for other statuses, up to `body_limit` (limits.body_bytes for other statuses) is kept and the rest not read.
    /// Throws Unreachable, or TooLarge for a 200 past its limit. With `from`, the sink gets what a 206 or a 200 has
    /// from that byte on; a 206 of a range that starts later comes back without its body. With `until`, throws NoRanges
    /// for an answer that is not of just that range.
    HttpAnswer exchange(const HttpRequest& request, size_t body_limit, const Sink& sink = {});

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth::oci
