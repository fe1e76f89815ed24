#include "runtime/oci/registry/client.hh"

#include <algorithm>
#include <random>
#include <thread>

#include "runtime/base/debug_log.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/oci/registry/error.hh"
#include "runtime/oci/sha256.hh"

namespace berth::oci {

namespace {

using std::chrono::milliseconds;

constexpr int redirect_limit = 5;
constexpr size_t token_answer_limit = 64 << 10;
/// So much of a body makes a broken transfer one that gets further.
constexpr uint64_t progress_bytes = 1 << 20;
/// Somebody may wonder about a wait that is longer.
constexpr milliseconds noticed_delay{1000};

bool is_redirect(long status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

double jitter() {
    thread_local std::minstd_rand random{std::random_device{}()};
    return std::uniform_real_distribution<>(0, 1)(random);
}

std::string basic(const Credentials& login) { return "Basic " + encode_base64(cat(login.user, ":", login.password)); }

}  // namespace

RegistryClient::RegistryClient(const plan::Reference& reference, const std::string& host,
                               const RegistryOptions& options, std::shared_ptr<Session> session)
    : reference_(reference),
      host_(host),
      options_(options),
      session_(std::move(session)),
      http_(options.limits, options.stop),
      origin_(origin_of(cat("https://", host))) {
    bool plain = options.plain_http.contains(host) || origin_.is_loopback();
    // A certificate of its own says that loopback has TLS.
    if (options.ca.contains(host) && !options.plain_http.contains(host)) plain = false;
    std::string url = cat(plain ? "http" : "https", "://", host);
    origin_ = origin_of(url);
    base_ = cat(url, "/v2/", reference.name, reference.name.empty() ? "" : "/");
}

bool RegistryClient::plain_allowed(const Origin& target) const {
    return target.is_loopback() || options_.plain_http.contains(target.authority()) ||
           options_.plain_http.contains(cat(target.host, ":", target.port));
}

/// One request, with the object named in what can go wrong.
HttpAnswer RegistryClient::exchange(HttpRequest& request, const Ask& ask) {
    Origin target = origin_of(request.url);
    auto ca = options_.ca.find(target.authority());
    if (ca == options_.ca.end()) ca = options_.ca.find(host_);
    if (ca != options_.ca.end()) request.ca = ca->second;
    request.proxy = options_.proxy;
    request.no_proxy = options_.no_proxy;
    try {
        HttpAnswer answer = http_.exchange(request, ask.limit, ask.sink);
        // Of an address nothing but its host: the rest may be a login.
        debug::log("registry", ask.what, ": ", target.authority(), " answers ", answer.status);
        session_->answered = true;
        return answer;
    } catch (const NotConnected& problem) {
        // A user who mistyped a name, or whose registry is down, is told at once.
        throw Unreachable(cat(ask.what, ": no answer from ", target.authority(), ": ", problem.what()),
                          !session_->answered);
    } catch (const Unreachable& problem) {
        throw Unreachable(cat(ask.what, ": no complete answer from ", target.authority(), ": ", problem.what()),
                          problem.lasting());
    } catch (const TooLarge& problem) {
        throw Error(cat(ask.what, ": ", problem.what(), "; refused"));
    }
}

std::string RegistryClient::next_hop(const std::string& url, const std::string& location,
                                     const std::string& what) const {
    try {
        std::string target = resolved(url, location);
        Origin from = origin_of(url);
        Origin to = origin_of(target);
        bool plain = to.scheme == "http";
        if (plain && (from.scheme == "https" || !plain_allowed(to)))
            throw Error(cat("redirected to ", printable(target), ", which is not encrypted"));
        if (to.is_link_local()) throw Error(cat("redirected to the link-local address ", to.host));
        return target;
    } catch (const Error& problem) {
        throw Error(cat(what, ": ", problem.what(), "; refused"));
    }
}

HttpAnswer RegistryClient::follow(HttpRequest request, const Ask& ask, Origin& last, std::string& authorization) {
    std::vector<std::string> headers = request.headers;
    authorization = session_->get();
    for (int hop = 0;; ++hop) {
        last = origin_of(request.url);
        request.headers = headers;
        // The login is the registry's business alone, be the other host an honest one.
        if (last == origin_ && !authorization.empty()) request.headers.push_back("Authorization: " + authorization);
        HttpAnswer answer = exchange(request, ask);
        if (!is_redirect(answer.status)) return answer;
        if (hop == redirect_limit)
            throw Error(cat(ask.what, ": redirected more than ", redirect_limit, " times; refused"));
        request.url = next_hop(request.url, answer.header("location"), ask.what);
    }
}

/// A login that this host has not refused yet; empty when there is none, or enough were sent.
Credentials RegistryClient::next_login() {
    LoginQuery query{.host = host_, .refused = options_.history->refused_by(host_)};
    bool enough = query.refused.size() >= LoginHistory::most;
    // Once all the same, for what an error has to say.
    if (!options_.credentials || (enough && session_->has_looked)) return {};
    session_->has_looked = true;
    query.unfit = session_->unfit;
    bool basic = std::any_of(session_->challenges.begin(), session_->challenges.end(),
                             [](const Challenge& challenge) { return challenge.scheme == "basic"; });
    query.direct = basic && origin_.scheme == "https";
    CredentialSearch search = options_.credentials(query);
    Credentials found = search.found;
    std::lock_guard lock(session_->mutex);
    session_->search = std::move(search);
    auto has = [&](const std::vector<std::string>& sources) {
        return std::find(sources.begin(), sources.end(), found.source) != sources.end();
    };
    return enough || has(query.refused) || has(query.unfit) ? Credentials{} : found;
}

void RegistryClient::note_refusal() {
    if (!session_->login.empty()) options_.history->add({host_, session_->login.source});
    session_->login = {};
}

/// What the user may want to mend is told once the access is there; else it is part of the error.
void RegistryClient::note_success(const std::string& authorization) {
    if (authorization.empty() || session_->accepted || session_->get() != authorization) return;
    session_->accepted = true;
    std::unique_lock lock(session_->mutex);
    std::vector<std::string> lines = session_->search.warnings;
    lock.unlock();
    for (const std::string& source : options_.history->refused_by(host_))
        lines.push_back(cat(printable(source, 4096), " (its login was refused)"));
    if (lines.empty() || !options_.notice || !options_.history->may_warn(host_)) return;
    std::string list;
    for (const std::string& line : lines) list += cat(list.empty() ? "" : ", ", line);
    options_.notice(cat("logins for ", printable(host_), ": ", list));
}

std::string RegistryClient::explanation() {
    if (!options_.credentials) return "";
    std::lock_guard lock(session_->mutex);
    return login_explanation(host_, session_->sent, session_->search);
}

/// The token; nothing where the token server does not take the login.
std::optional<std::string> RegistryClient::bearer_token(const Challenge& challenge, const Credentials& login,
                                                        const Ask& ask) {
    if (!login.registry_token.empty()) return login.registry_token;
    HttpRequest request;
    const char* rights = ask.method.empty() ? ":pull" : ask.method == "DELETE" ? ":pull,push,delete" : ":pull,push";
    std::string scope = reference_.name.empty() ? "" : cat("repository:", reference_.name, rights);
    try {
        request.url = token_url(challenge, origin_, scope, [&](const Origin& realm) { return plain_allowed(realm); });
    } catch (const Error& problem) {
        throw Error(cat(ask.what, ": ", problem.what()));
    }
    if (!login.identity_token.empty()) {
        request.form = refresh_form(request.url, login.identity_token);
        request.url = request.url.substr(0, request.url.find('?'));
    } else if (!login.empty()) {
        request.headers.push_back("Authorization: " + basic(login));
    }
    HttpAnswer reply = exchange(request, {.path = "", .what = ask.what, .limit = token_answer_limit});
    std::string server = cat("token server ", origin_of(request.url).authority());
    // 400 is what OAuth 2 has for a refresh token that has ended (RFC 6749, section 5.2).
    bool denied = reply.status == 401 || reply.status == 403 || (reply.status == 400 && request.form);
    if (denied && !login.empty() && options_.anonymous) return std::nullopt;
    if (reply.status != 200) refuse(reply, ask.what, server, explanation());
    refuse_page(reply, ask.what, server);
    try {
        return parse_token(reply.body);
    } catch (const Error& problem) {
        throw Error(cat(ask.what, ": ", problem.what()));
    }
}

/// Makes the session fit for the challenges, with a login or, when that is empty, by a token without one.
RegistryClient::Sent RegistryClient::send_login(const Credentials& login, const Ask& ask) {
    for (const Challenge& challenge : session_->challenges) {
        bool bearer = challenge.scheme == "bearer" && !login.direct_only;
        bool by_basic = challenge.scheme == "basic" && !(login.user.empty() && login.password.empty());
        if (!bearer && !by_basic) continue;
        if (!login.empty()) {
            std::lock_guard lock(session_->mutex);
            bool is_new = session_->sent.empty() || session_->sent.back().source != login.source;
            if (is_new) session_->sent.push_back({login.user, "", "", "", login.source});
        }
        session_->login = login;
        debug::log("registry", host_, ": asking for access ",
                   login.empty() ? "without a login" : cat("with the login of ", login.source), ", ", challenge.scheme);
        std::optional<std::string> token;
        if (bearer && !(token = bearer_token(challenge, login, ask))) return Sent::refused;
        session_->set(bearer ? "Bearer " + *token : basic(login));
        return Sent::taken;
    }
    return Sent::unfit;
}

/// The next login that can be used here, then none.
bool RegistryClient::log_in(const Ask& ask) {
    if (session_->anonymous) return false;
    for (Credentials login = next_login(); !login.empty(); login = next_login()) {
        Sent sent = send_login(login, ask);
        if (sent == Sent::taken) return true;
        if (sent == Sent::unfit)
            session_->unfit.push_back(login.source);
        else
            note_refusal();
    }
    if (!options_.anonymous && !options_.history->refused_by(host_).empty()) return false;
    session_->anonymous = true;
    return send_login({}, ask) == Sent::taken;
}

/// Makes the session fit after an answer that denies access; false when that is the last word. `denied` is what the
/// request was authorized by; `renewed` is set where the request got a new token in place of one that was good before.
bool RegistryClient::authenticate(const HttpAnswer& answer, const std::string& denied, const Ask& ask, bool& renewed) {
    std::lock_guard lock(session_->refresh);
    // Another connection has been here meanwhile.
    if (session_->get() != denied) return true;
    if (answer.status == 401) session_->challenges = parse_challenges(answer.header("www-authenticate"));
    if (session_->accepted) {
        // Once: a registry that is not content with the token it asked for will not be with the next one.
        if (renewed || answer.status != 401 || denied.starts_with("Basic ")) return false;
        renewed = true;
        return send_login(session_->login, ask) == Sent::taken;
    }
    note_refusal();
    return log_in(ask);
}

HttpAnswer RegistryClient::get_once(const Ask& ask, bool by_range) {
    HttpRequest request;
    request.url = ask.url.empty() ? base_ + ask.path : ask.url;
    request.method = ask.method;
    request.body = ask.body;
    request.file = ask.file;
    if (!ask.method.empty()) request.headers.push_back("Content-Type: " + ask.type);
    request.head = ask.head;
    request.from = ask.received != nullptr ? *ask.received : 0;
    request.by_range = by_range;
    request.until = ask.until;
    if (!ask.accept.empty()) request.headers.push_back("Accept: " + ask.accept);
    Origin last;
    std::string authorization;
    auto send = [&] {
        uint64_t before = request.from;
        try {
            return follow(request, ask, last, authorization);
        } catch (const Unreachable&) {
            if (ask.received != nullptr && *ask.received > before) note_success(authorization);
            throw;
        }
    };
    HttpAnswer answer = send();
    // 403 is what some registries have for a login that has ended.
    auto is_denied = [&] {
        return last == origin_ && (answer.status == 401 || (answer.status == 403 && !authorization.empty()));
    };
    for (bool renewed = false; is_denied() && authenticate(answer, authorization, ask, renewed);)
        answer = send();
    if (last != origin_ || (!is_denied() && !is_passing(answer.status))) note_success(authorization);
    return answer;
}

void RegistryClient::pause(milliseconds time) const {
    auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
        if (options_.stop != nullptr && options_.stop->load()) throw Error("stopped");
        std::this_thread::sleep_for(std::min(time, milliseconds(50)));
    }
}

HttpAnswer RegistryClient::get(const Ask& ask, const RetryRules& rules) {
    unsigned retry = 0;
    milliseconds waited{0};
    uint64_t reached = 0;
    for (bool by_range = true;;) {
        uint64_t start = ask.received != nullptr ? *ask.received : 0;
        try {
            HttpAnswer answer = get_once(ask, by_range);
            if (is_passing(answer.status)) refuse_answer(answer, ask.what);
            bool may_ask_for_all = start > 0 && by_range && ask.until == 0;
            bool other_range =
                may_ask_for_all && (answer.status == 416 || (answer.status == 206 && *ask.received == start));
            if (!other_range) return answer;
            by_range = false;
        } catch (const Unreachable& problem) {
            if (ask.received != nullptr && *ask.received >= reached + progress_bytes) {
                retry = 0;
                reached = *ask.received;
            }
            auto delay =
                problem.lasting() ? std::nullopt : retry_delay(rules, retry++, waited, jitter(), problem.after());
            if (!delay) throw;
            waited += *delay;
            debug::log("registry", "trying again in ", delay->count(), " ms: ", problem.what());
            if (*delay >= noticed_delay && options_.retrying) options_.retrying(*delay, problem.what());
            pause(*delay);
        }
    }
}

bool RegistryClient::put_blob(const Digest& digest, const std::string& bytes, const FileBody& file,
                              const std::string& what, const RetryRules& rules) {
    constexpr const char* type = "application/octet-stream";
    if (get({.path = cat("blobs/", digest), .what = what, .head = true}, rules).status == 200) return false;
    std::string path = "blobs/uploads/";
    HttpAnswer begun = get({.path = path, .what = what, .method = "POST", .type = type}, rules);
    if (begun.status != 202) refuse_answer(begun, what);
    std::string place = next_hop(base_ + path, begun.header("location"), what);
    place += cat(place.find('?') == place.npos ? "?" : "&", "digest=", digest);
    HttpAnswer done = get(
        {.path = path, .what = what, .method = "PUT", .body = bytes, .file = file, .type = type, .url = place}, rules);
    if (done.status != 201) refuse_answer(done, what);
    return true;
}

void RegistryClient::refuse_answer(const HttpAnswer& answer, const std::string& what) {
    bool access = answer.status == 401 || answer.status == 403;
    refuse(answer, what, server(), access ? explanation() : "");
}

}  // namespace berth::oci
