// What registries have refused of the user's logins, so that nothing is sent to them twice. An account may be locked
// after a few tries.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::oci {

/// A login that a registry has refused, without the login.
struct RefusedLogin {
    std::string host;    ///< HOST[:PORT]
    std::string source;  ///< the file or program that it came from, as Credentials::source

    bool operator==(const RefusedLogin&) const = default;
};

/// One word of printable ASCII for srun, nodes and command lines: "HOST=SOURCE", both as in a URL. Pure.
std::string word_of(const RefusedLogin& refused);

/// Nothing for a word that word_of() does not write. Pure.
std::optional<RefusedLogin> parse_refused_login(std::string_view word);

/// Shared by all connections of one pull; for any thread.
class LoginHistory {
  public:
    /// So many logins are sent to a host, those that were refused before among them.
    static constexpr size_t most = 2;

    void add(RefusedLogin refused);
    std::vector<RefusedLogin> refused() const;
    /// Where those come from that the host has refused.
    std::vector<std::string> refused_by(const std::string& host) const;
    /// The same as words.
    std::vector<std::string> words() const;
    /// True once for each host: a person reads one warning about the logins for it.
    bool may_warn(const std::string& host);
    /// Somebody else warns.
    void silence();

  private:
    mutable std::mutex mutex_;
    std::vector<RefusedLogin> refused_;
    std::vector<std::string> warned_;
    bool silent_ = false;
};

}  // namespace berth::oci
