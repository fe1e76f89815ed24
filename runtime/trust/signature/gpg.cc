#include "runtime/trust/signature/gpg.hh"

#include <map>
#include <vector>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"

namespace berth::trust {

namespace {

constexpr std::string_view armor_begin = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
constexpr std::string_view armor_end = "-----END PGP PUBLIC KEY BLOCK-----";

/// The base64 of a block: what follows the empty line behind its headers, without the checksum.
std::string armored_text(std::string_view block) {
    std::string out;
    bool in_body = false;
    std::vector<std::string> lines = split(block, '\n');
    // The first is what is left of the line that begins the block.
    for (size_t i = 1; i < lines.size(); ++i) {
        std::string_view text = trimmed(lines[i]);
        if (in_body && !text.starts_with('=')) out += text;
        if (text.empty()) in_body = true;
    }
    return out;
}

/// What gpgv calls a signature that is none, and what people do.
const std::map<std::string, std::string, std::less<>>& bad_words() {
    static const std::map<std::string, std::string, std::less<>> out{
        {"BADSIG", "the signature is not one of these bytes"},
        {"EXPSIG", "the signature has expired"},
        {"EXPKEYSIG", "the key has expired"},
        {"REVKEYSIG", "the key has been revoked"},
        {"ERRSIG", "the signature cannot be checked (another key, or an algorithm that gpgv does not know)"},
        {"NODATA", "this is no signature"},
    };
    return out;
}

bool is_fingerprint(std::string_view text) {
    return (text.size() == 40 || text.size() == 64) && text.find_first_not_of("0123456789ABCDEF") == text.npos;
}

struct Status {
    unsigned signatures = 0, good = 0, valid = 0;
    std::string signer;
};

void take_line(const std::vector<std::string>& words, const std::string& what, Status& out) {
    const std::string& word = words[1];
    if (auto bad = bad_words().find(word); bad != bad_words().end()) throw Error(cat(what, ": ", bad->second));
    out.signatures += word == "NEWSIG";
    out.good += word == "GOODSIG";
    // The last word is the primary key's; without it the signing key is that.
    constexpr size_t signing_key = 2, primary_key = 11;
    if (word != "VALIDSIG" || words.size() <= signing_key) return;
    ++out.valid;
    out.signer = words.size() > primary_key ? words[primary_key] : words[signing_key];
}

}  // namespace

std::string keyring_packets(std::string_view key, const std::string& what) {
    if (key.find(armor_begin) == key.npos) return std::string(key);
    std::string out;
    for (size_t begin; (begin = key.find(armor_begin)) != key.npos;) {
        key.remove_prefix(begin + armor_begin.size());
        size_t end = key.find(armor_end);
        auto packets = oci::decode_base64(armored_text(key.substr(0, end)));
        if (end == key.npos || !packets) throw Error(cat(what, ": its ASCII armor is broken"));
        out += *packets;
        key.remove_prefix(end);
    }
    return out;
}

std::string signer_of_status(std::string_view status, const std::string& what) {
    Status found;
    for (const std::string& line : split(status, '\n')) {
        std::vector<std::string> words = split(trimmed(line), ' ');
        if (words.size() > 1 && words[0] == "[GNUPG:]") take_line(words, what, found);
    }
    if (found.signatures > 1 || found.good != 1 || found.valid != 1 || !is_fingerprint(found.signer))
        throw Error(cat(what, ": gpgv tells of ", found.good, " good signatures instead of one"));
    return found.signer;
}

}  // namespace berth::trust
