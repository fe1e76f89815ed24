#include "runtime/pull/nodes/protocol/agreement.hh"

#include <algorithm>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"

namespace berth::pull {

namespace {

constexpr const char* greeting = "berth-agree-1";
constexpr const char* greeting_start = "berth-agree-";

bool is_greeting(const std::string& word) { return word.starts_with(greeting_start); }

/// The words of a message but for the code; nothing when that is wrong.
std::vector<std::string> opened(const std::string& secret, std::string_view line, const std::string& context) {
    auto words = line.size() > agreement_line_limit ? std::nullopt : without_code(secret, line, context);
    return words ? split(*words, ' ') : std::vector<std::string>();
}

}  // namespace

std::string with_code(const std::string& secret, const std::string& words, const std::string& context) {
    return cat(words, ' ', oci::hmac_sha256(secret, cat(words, '\n', context)));
}

std::optional<std::string_view> without_code(const std::string& secret, std::string_view line,
                                             const std::string& context) {
    size_t space = line.rfind(' ');
    if (space == std::string_view::npos) return std::nullopt;
    std::string_view words = line.substr(0, space);
    bool is_right = oci::same_code(oci::hmac_sha256(secret, cat(words, '\n', context)), line.substr(space + 1));
    return is_right ? std::optional(words) : std::nullopt;
}

bool is_word(const std::string& text) {
    return !text.empty() && text.size() <= 255 &&
           text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:") ==
               std::string::npos;
}

std::string agreement_question(const std::string& secret, const std::string& node, const Digest& digest,
                               const std::string& nonce) {
    return with_code(secret, cat(greeting, " ask ", node, ' ', digest, ' ', nonce), "");
}

std::string Agreement::answer(std::string_view line) {
    // Before any work is done for somebody who says anything.
    if (!line.starts_with(greeting_start)) return {};
    std::vector<std::string> words = opened(secret_, line, "");
    if (words.size() < 5 || !is_greeting(words[0]) || !is_word(words[4])) return {};
    if (words[0] != greeting) return with_code(secret_, cat(greeting, " other"), words[4]);
    if (words[1] != "ask" || !is_word(words[2])) return {};
    auto digest = Digest::parse(words[3]);
    if (!digest) return {};
    if (!agreed_) agreed_ = Agreed{*digest, words[2]};
    return with_code(secret_, cat(greeting, " run ", agreed_->node, ' ', agreed_->digest), words[4]);
}

std::optional<Agreed> read_agreement(const std::string& secret, const std::string& nonce, std::string_view line) {
    std::vector<std::string> words = opened(secret, line, nonce);
    if (words.size() < 2 || !is_greeting(words[0])) return std::nullopt;
    if (words[0] != greeting || words[1] == "other")
        throw Error("srun's berth is of another release, with which this node's cannot agree");
    if (words.size() < 4 || words[1] != "run" || !is_word(words[2])) return std::nullopt;
    auto digest = Digest::parse(words[3]);
    return digest ? std::optional(Agreed{*digest, words[2]}) : std::nullopt;
}

MeetingPlace parse_agreement_address(const std::string& text) {
    std::vector<std::string> words = split(text, ' ');
    uint64_t rank = 0;
    if (words.size() != 5 || !std::all_of(words.begin(), words.end(), is_word) ||
        !parse_number(words[4], UINT32_MAX, rank))
        throw Error(
            "agreeing on an image's digest: where to ask is not HOST PORT SECRET NODE RANK; srun's and the node's "
            "berth are of different releases: name the image by digest, or choose nodes of srun's release");
    return {words[0], words[1], words[2], words[3], static_cast<unsigned>(rank)};
}

}  // namespace berth::pull
