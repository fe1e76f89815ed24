// When a request that failed is tried again. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace berth::oci {

struct RetryRules {
    unsigned retries = 5;                           ///< one after another without getting further
    std::chrono::milliseconds first{500};           ///< doubled each time
    std::chrono::milliseconds longest{10'000};      ///< that doubling comes to
    std::chrono::milliseconds longest_reported{60'000}; ///< that a server may ask for; with more there is no retry
    std::chrono::milliseconds total{120'000};       ///< waited for one object altogether
};

/// The time to wait before retry number `retry` (0 is the first) when `waited` has gone before; nothing: give up.
/// `jitter`, in [0, 1), spreads the clients: the wait is between half of the doubled time and all of it, or between
/// what the server `told` and a quarter more.
std::optional<std::chrono::milliseconds> retry_delay(const RetryRules& rules, unsigned retry,
                                                     std::chrono::milliseconds waited, double jitter,
                                                     std::optional<std::chrono::seconds> told);

/// The seconds from `now` (since 1970) of a Retry-After: a number or a date (RFC 9110, section 10.2.3), at most 10^9.
/// Nothing for junk.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, int64_t now);

}  // namespace berth::oci
