// How the nodes of a step agree what a tag means when srun did not learn it: each asks its registry, then tells srun's
// helper, and the first word counts. Messages are lines with a code over them (HMAC-SHA256 by a secret of the step,
// which goes with Slurm's launch of it), so that nobody else on the network can choose the image.
//
//     berth-agree-1 ask NODE DIGEST NONCE [WORD...] CODE
//     berth-agree-1 run NODE DIGEST [WORD...] CODE            the answer
//     berth-agree-1 other CODE                                the answer to a question of another version
//
// In every version the first word names it, the fifth word of a question is the nonce, and the last one is the code.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/digest.hh"

namespace berth::pull {

struct Agreed {
    Digest digest;
    std::string node;  ///< whose word it is
};

/// Words with a code over them and over `context`, which both ends know, as the last word.
std::string with_code(const std::string& secret, const std::string& words, const std::string& context);
/// The words but for the code; nothing when that is wrong.
std::optional<std::string_view> without_code(const std::string& secret, std::string_view line,
                                             const std::string& context);

/// What a node says: a line without its end. `nonce` is the node's own, never used twice.
std::string agreement_question(const std::string& secret, const std::string& node, const Digest& digest,
                               const std::string& nonce);

/// What the answer to one's question says; nothing when it is not by one who knows the secret, or not to this question.
/// Throws Error for srun's answer in another version, or to another version.
std::optional<Agreed> read_agreement(const std::string& secret, const std::string& nonce, std::string_view line);

/// srun's side, for one step.
class Agreement {
  public:
    explicit Agreement(std::string secret) : secret_(std::move(secret)) {}

    /// The answer, without its line end, to a line that came; empty for one that deserves none.
    std::string answer(std::string_view line);

  private:
    std::string secret_;
    std::optional<Agreed> agreed_;
};

inline constexpr size_t agreement_line_limit = 1024;  ///< bytes

/// Whether the text can be a word of a message: a name, an address, a number.
bool is_word(const std::string& text);

/// Where to ask, as the node's helper hands it over: "HOST PORT SECRET NODE RANK".
struct MeetingPlace {
    std::string host, port, secret, node;
    unsigned rank = 0;  ///< of the node in the step, from 0
};
/// Throws Error when it is not that.
MeetingPlace parse_agreement_address(const std::string& text);

/// Tells `digest` and returns what counts for the step. Waits ten seconds for each of connection and answer. Throws
/// Error that names `what`.
Agreed agree(const MeetingPlace& place, const Digest& digest, const std::string& what);

}  // namespace berth::pull
