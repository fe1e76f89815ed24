// One host of a repository: its requests with redirects, logins and retries. The registry itself is one, each mirror of
// it another.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/oci/auth/auth.hh"
#include "runtime/oci/registry/options.hh"
#include "runtime/request/reference.hh"

namespace berth::oci {

/// What all connections to one host share: how they are authorized.
struct Session {
    std::mutex mutex;           ///< of what follows
    std::string authorization;  ///< value of the header; empty: anonymous
    CredentialSearch search;    ///< the last one for a login
    std::vector<Credentials> sent;
    std::atomic<bool> accepted = false;  ///< something was answered to `authorization`
    std::mutex refresh;         ///< held by the one that asks for a token, and what follows is its
    std::vector<Challenge> challenges;   ///< of the last 401
    Credentials login;                   ///< behind `authorization`
    bool has_looked = false;             ///< for a login
    bool anonymous = false;              ///< that is a token without a login
    std::vector<std::string> unfit;      ///< sources of logins that are for other challenges
    std::atomic<bool> given_up = false;  ///< a mirror that did not answer
    std::atomic<bool> answered = false;  ///< somebody was there, so that a connection refused later may pass

    std::string get() {
        std::lock_guard lock(mutex);
        return authorization;
    }
    void set(std::string value) {
        std::lock_guard lock(mutex);
        authorization = std::move(value);
        accepted = false;
    }
};

/// One thread at a time.
class RegistryClient {
  public:
    /// A request below /v2/NAME/.
    struct Ask {
        std::string path;
        std::string what;  ///< in front of an error
        bool head = false;
        std::string accept = {};
        size_t limit = 0;  ///< bytes of a body without a sink
        Sink sink = {};
        const uint64_t* received = nullptr;  ///< bytes the sink has had, where a retry goes on
        uint64_t until = 0;                  ///< see HttpRequest; `received` counts from the start of the blob
        std::string method = {};             ///< "PUT", "POST" or "DELETE"; empty: GET, or HEAD
        std::string body = {};               ///< of those
        FileBody file = {};                  ///< in place of `body`, of a PUT
        std::string type = {};               ///< its Content-Type
        std::string url = {};                ///< in place of the path, as the registry has given it
    };

    RegistryClient(const plan::Reference& reference, const std::string& host, const RegistryOptions& options,
                   std::shared_ptr<Session> session);

    /// The answer, of whatever status but those that pass: they are retried by `rules`, and so is a broken transfer.
    /// Throws Unreachable in the end.
    HttpAnswer get(const Ask& ask, const RetryRules& rules);
    /// Brings a blob there, in one piece, unless it is there. True when it was brought. Throws Error.
    bool put_blob(const Digest& digest, const std::string& bytes, const FileBody& file, const std::string& what,
                  const RetryRules& rules);
    /// Throws what an answer other than 200 means.
    [[noreturn]] void refuse_answer(const HttpAnswer& answer, const std::string& what);

    const std::shared_ptr<Session>& session() const { return session_; }
    const std::string& host() const { return host_; }

  private:
    std::string server() const { return "registry " + origin_.authority(); }
    bool plain_allowed(const Origin& target) const;
    HttpAnswer get_once(const Ask& ask, bool by_range);
    HttpAnswer follow(HttpRequest request, const Ask& ask, Origin& last, std::string& authorization);
    HttpAnswer exchange(HttpRequest& request, const Ask& ask);
    std::string next_hop(const std::string& url, const std::string& location, const std::string& what) const;
    bool authenticate(const HttpAnswer& answer, const std::string& denied, const Ask& ask, bool& renewed);
    bool log_in(const Ask& ask);
    enum class Sent { taken, refused, unfit };
    Sent send_login(const Credentials& login, const Ask& ask);
    std::optional<std::string> bearer_token(const Challenge& challenge, const Credentials& login, const Ask& ask);
    Credentials next_login();
    void note_refusal();
    void note_success(const std::string& authorization);
    std::string explanation();
    void pause(std::chrono::milliseconds time) const;

    const plan::Reference& reference_;
    std::string host_;
    const RegistryOptions& options_;  ///< with a history
    std::shared_ptr<Session> session_;
    Http http_;
    Origin origin_;
    std::string base_;  ///< ".../v2/<name>/"
};

}  // namespace berth::oci
