#include "runtime/oci/registry/retry.hh"

#include <curl/curl.h>

#include <algorithm>
#include <string>

#include "runtime/base/text.hh"

namespace berth::oci {

namespace {

using std::chrono::milliseconds;

constexpr int64_t longest_after = 1'000'000'000;

milliseconds scaled(milliseconds time, double factor) {
    return milliseconds(static_cast<int64_t>(static_cast<double>(time.count()) * factor));
}

milliseconds doubled(const RetryRules& rules, unsigned retry) {
    // More doublings than these pass any limit.
    return std::min(rules.first * (1 << std::min(retry, 16U)), rules.longest);
}

}  // namespace

std::optional<milliseconds> retry_delay(const RetryRules& rules, unsigned retry, milliseconds waited, double jitter,
                                        std::optional<std::chrono::seconds> told) {
    if (retry >= rules.retries) return std::nullopt;
    if (told && *told > rules.longest_reported) return std::nullopt;
    milliseconds own = scaled(doubled(rules, retry), 0.5 + jitter / 2);
    milliseconds delay = told ? std::max(scaled(*told, 1 + jitter / 4), own) : own;
    if (waited + delay > rules.total) return std::nullopt;
    return delay;
}

std::optional<std::chrono::seconds> parse_retry_after(std::string_view value, int64_t now) {
    std::string text(trimmed(value));
    if (text.empty() || text.size() > 64) return std::nullopt;
    if (text.find_first_not_of("0123456789") == text.npos) {
        uint64_t number = 0;
        return std::chrono::seconds(parse_number(text, longest_after, number) ? static_cast<int64_t>(number)
                                                                              : longest_after);
    }
    // A date starts with the day's name in all three of its forms; libcurl's reader is content with much less.
    bool named = text[0] >= 'A' && text[0] <= 'Z' && text.find(':') != text.npos;
    time_t date = named ? ::curl_getdate(text.c_str(), nullptr) : -1;
    if (date == -1) return std::nullopt;
    return std::chrono::seconds(std::clamp<int64_t>(date - now, 0, longest_after));
}

}  // namespace berth::oci
