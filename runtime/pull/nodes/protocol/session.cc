#include "runtime/pull/nodes/protocol/session.hh"

#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/sha256.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"

namespace berth::pull::nodes {

namespace {

constexpr const char* version = "berth-share-1";

}  // namespace

Session::Session(Sender end, std::string secret, std::string nonce)
    : end_(end), secret_(std::move(secret)), own_nonce_(std::move(nonce)) {}

bool Session::is_greeting(std::string_view line) { return line.starts_with("berth-share-"); }

std::string Session::context(Sender from, uint64_t number) const {
    bool is_node = end_ == Sender::node;
    return cat(from == Sender::node ? "node " : "srun ", is_node ? own_nonce_ : other_nonce_, ' ',
               is_node ? other_nonce_ : own_nonce_, ' ', number);
}

std::string Session::greeting() const {
    std::string words = cat(version, ' ', is_other_release_ ? "other" : own_nonce_);
    return with_code(secret_, words, end_ == Sender::node ? "node" : cat("srun ", other_nonce_));
}

bool Session::take_greeting(std::string_view line) {
    if (line.size() > greeting_limit || !is_greeting(line)) return false;
    auto opened = without_code(secret_, line, end_ == Sender::node ? cat("srun ", own_nonce_) : "node");
    if (!opened) return false;
    std::vector<std::string> words = split(*opened, ' ');
    if (words.size() < 2 || !is_word(words[1])) return false;
    other_nonce_ = words[1];
    is_other_release_ = words[0] != version || (end_ == Sender::node && words[1] == "other");
    if (is_other_release_ && end_ == Sender::node)
        throw Error("srun's berth is of another release, with which this node's cannot share");
    return true;
}

std::string Session::wrap(const std::string& words) { return with_code(secret_, words, context(end_, sent_++)); }

std::optional<std::string_view> Session::unwrap(std::string_view line) {
    if (line.size() > line_limit) return std::nullopt;
    auto words = without_code(secret_, line, context(end_ == Sender::node ? Sender::tracker : Sender::node, received_));
    if (words) ++received_;
    return words;
}

}  // namespace berth::pull::nodes
