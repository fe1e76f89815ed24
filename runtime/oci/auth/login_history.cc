#include "runtime/oci/auth/login_history.hh"

#include <algorithm>

#include "runtime/base/text.hh"
#include "runtime/oci/url.hh"

namespace berth::oci {

namespace {

constexpr size_t text_limit = 4096;

int digit_of(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The text of which url_encoded() makes this; nothing when there is none.
std::optional<std::string> url_decoded(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        int high = i + 2 < text.size() ? digit_of(text[i + 1]) : -1;
        int low = high >= 0 ? digit_of(text[i + 2]) : -1;
        if (low < 0) return std::nullopt;
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    if (out.empty() || out.size() > text_limit || url_encoded(out) != text) return std::nullopt;
    return out;
}

}  // namespace

std::string word_of(const RefusedLogin& refused) {
    return cat(url_encoded(refused.host), "=", url_encoded(refused.source));
}

std::optional<RefusedLogin> parse_refused_login(std::string_view word) {
    size_t equals = word.find('=');
    if (equals == word.npos) return std::nullopt;
    auto host = url_decoded(word.substr(0, equals)), source = url_decoded(word.substr(equals + 1));
    if (!host || !source) return std::nullopt;
    return RefusedLogin{*host, *source};
}

void LoginHistory::add(RefusedLogin refused) {
    std::lock_guard lock(mutex_);
    if (std::find(refused_.begin(), refused_.end(), refused) == refused_.end()) refused_.push_back(std::move(refused));
}

std::vector<RefusedLogin> LoginHistory::refused() const {
    std::lock_guard lock(mutex_);
    return refused_;
}

std::vector<std::string> LoginHistory::refused_by(const std::string& host) const {
    std::vector<std::string> out;
    for (const RefusedLogin& one : refused())
        if (one.host == host) out.push_back(one.source);
    return out;
}

std::vector<std::string> LoginHistory::words() const {
    std::vector<std::string> out;
    for (const RefusedLogin& one : refused()) out.push_back(word_of(one));
    return out;
}

bool LoginHistory::may_warn(const std::string& host) {
    std::lock_guard lock(mutex_);
    if (silent_ || std::find(warned_.begin(), warned_.end(), host) != warned_.end()) return false;
    warned_.push_back(host);
    return true;
}

void LoginHistory::silence() {
    std::lock_guard lock(mutex_);
    silent_ = true;
}

}  // namespace berth::oci
