#include "runtime/pull/share/messages.hh"

#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/agreement/agreement.hh"

namespace berth::pull::share {

namespace {

constexpr size_t document_limit = 16;
constexpr size_t source_limit = 64;  // of a stripe
constexpr const char* none = "-";
constexpr const char* key_start = "sha256//";

// Writing.

/// Bytes, of which there may be none.
std::string packed(std::string_view bytes) { return bytes.empty() ? none : oci::encode_base64(bytes); }

std::string reason_word(const std::string& reason) {
    bool is_fit = reason.size() <= reason_limit && printable(reason, reason.size()) == reason;
    // Four bytes stand for one that is not printable.
    return packed(is_fit ? reason : printable(reason, reason_limit / 4 - 1));
}

std::string layer_word(const std::optional<unsigned>& layer) { return layer ? std::to_string(*layer) : none; }

std::string peer_words(const Peer& peer) {
    return cat(peer.node, ' ', peer.address, ' ', peer.port, ' ', peer.key);
}

std::string peers_words(const std::vector<Peer>& peers) {
    std::string out = std::to_string(peers.size());
    for (const Peer& peer : peers) out += cat(' ', peer_words(peer));
    return out;
}

std::string role_words(const LayerRole& role) {
    std::string out = role.is_owner ? "own" : "take";
    for (const std::vector<unsigned>& list : role.sources) {
        out += ' ';
        if (list.empty()) out += none;
        for (size_t i = 0; i < list.size(); ++i) out += cat(i == 0 ? "" : ",", list[i]);
    }
    return out;
}

const char* fault_word(Fault fault) {
    return fault == Fault::wrong ? "wrong" : fault == Fault::gone ? "gone" : "silent";
}

std::string layers_word(const std::vector<LayerProgress>& layers) {
    std::string out;
    for (const LayerProgress& layer : layers)
        out += cat(out.empty() ? "" : ",", layer.pieces, layer.is_awaited ? "+" : "");
    return out.empty() ? none : out;
}

struct Writer {
    std::string operator()(const Hello& it) const {
        std::string out = cat("hello ", peer_words(it.self), ' ', it.rank, ' ', it.image, ' ', it.release);
        return it.release == release ? cat(out, ' ', it.link) : out;
    }
    std::string operator()(const Documents& it) const {
        std::string out = cat("documents ", it.documents.size());
        for (const SharedDocument& one : it.documents)
            out += cat(' ', one.digest, ' ', packed(one.content_type), ' ', packed(one.bytes));
        return out;
    }
    std::string operator()(const Have& it) const {
        std::string out = cat("have ", it.sizes.size()), flags;
        for (uint64_t size : it.sizes) out += cat(' ', size);
        for (bool has : it.has) flags += has ? '1' : '0';
        return cat(out, ' ', flags.empty() ? none : flags);
    }
    std::string operator()(const Sealed& it) const {
        return cat("sealed ", it.layer, ' ', it.size, ' ', it.pieces, it.owner.empty() ? "" : " ", it.owner);
    }
    std::string operator()(const Done& it) const { return cat("done ", it.layer); }
    std::string operator()(const Failed& it) const {
        return cat("failed ", layer_word(it.layer), ' ', reason_word(it.reason));
    }
    std::string operator()(const Complaint& it) const {
        return cat("complaint ", it.key, ' ', it.layer, ' ', fault_word(it.fault), ' ',
                   reason_word(it.reason));
    }
    std::string operator()(const Progress& it) const {
        return cat("progress ", it.registry, ' ', it.peers, ' ', it.behind, ' ', it.sent, ' ', it.is_at_work ? 1 : 0,
                   ' ', layers_word(it.layers));
    }
    std::string operator()(const Finished&) const { return "finished"; }
    std::string operator()(const Enter& it) const {
        return cat("enter ", peer_words(it.self), ' ', it.rank, ' ', it.image, ' ', it.release);
    }
    std::string operator()(const Proved& it) const { return cat("proved ", it.layer); }
    std::string operator()(const Gone& it) const { return cat("gone ", it.node); }
    std::string operator()(const Fetch&) const { return "fetch"; }
    std::string operator()(const Plan& it) const {
        std::string out = cat("plan ", peers_words(it.peers), ' ', it.layers.size());
        for (const LayerRole& role : it.layers) out += cat(' ', role_words(role));
        return out;
    }
    std::string operator()(const NewRole& it) const {
        return cat("role ", it.layer, ' ', peers_words(it.peers), ' ', role_words(it.role));
    }
    std::string operator()(const Alone& it) const {
        return cat("alone ", layer_word(it.layer), ' ', reason_word(it.reason));
    }
    std::string operator()(const StepStatus& it) const {
        return cat("status ", it.nodes, ' ', it.ready, ' ', it.registry, ' ', it.peers, ' ', it.rate, ' ', it.median,
                   ' ', it.last.empty() ? none : it.last, ' ', it.last_bytes, ' ', it.last_total, ' ',
                   it.is_told_here ? 1 : 0);
    }
    std::string operator()(const End&) const { return "end"; }
    std::string operator()(const Roster& it) const {
        return cat("roster ", it.own ? std::to_string(*it.own) : none, ' ', peers_words(it.peers));
    }
};

// Reading.

/// Thrown and caught in this file: the words are no message.
struct NoMessage {};

void need(bool holds) {
    if (!holds) throw NoMessage{};
}

/// Takes one word after the other.
class Words {
  public:
    explicit Words(std::string_view rest) : rest_(rest) {}

    std::string_view next() {
        need(!ended_);
        size_t space = rest_.find(' ');
        std::string_view out = rest_.substr(0, space);
        ended_ = space == std::string_view::npos;
        rest_ = ended_ ? std::string_view() : rest_.substr(space + 1);
        need(!out.empty());
        return out;
    }
    std::string name() {
        std::string out(next());
        need(is_word(out));
        return out;
    }
    uint64_t number(uint64_t limit = UINT64_MAX) { return number_of(next(), limit); }
    unsigned place(size_t limit) { return static_cast<unsigned>(number(limit)); }
    unsigned layer() { return place(layer_limit - 1); }
    std::optional<unsigned> layer_or_none() {
        std::string_view word = next();
        if (word == none) return std::nullopt;
        return static_cast<unsigned>(number_of(word, layer_limit - 1));
    }
    Digest digest() {
        auto out = Digest::parse(next());
        need(out.has_value());
        return *out;
    }
    std::string bytes() {
        std::string_view word = next();
        if (word == none) return {};
        auto out = oci::decode_base64(word);
        need(out && !out->empty() && oci::encode_base64(*out) == word);
        return *out;
    }
    std::string reason() {
        std::string out = bytes();
        need(out.size() <= reason_limit && printable(out, out.size()) == out);
        return out;
    }
    /// "sha256//" and a SHA-256 in base64.
    std::string key() {
        std::string out(next());
        need(out.starts_with(key_start));
        auto hash = oci::decode_base64(std::string_view(out).substr(std::string_view(key_start).size()));
        need(hash && hash->size() == 32 && cat(key_start, oci::encode_base64(*hash)) == out);
        return out;
    }
    /// Nothing may follow.
    void end() const { need(ended_); }

    static uint64_t number_of(std::string_view word, uint64_t limit) {
        uint64_t out = 0;
        need(parse_number(word, limit, out) && std::to_string(out) == word);
        return out;
    }

  private:
    std::string_view rest_;
    bool ended_ = false;
};

Peer read_peer(Words& words) {
    Peer out;
    out.node = words.name();
    out.address = words.name();
    out.port = static_cast<uint16_t>(words.number(UINT16_MAX));
    out.key = words.key();
    return out;
}

std::vector<Peer> read_peers(Words& words) {
    std::vector<Peer> out;
    // Each takes more than a byte of the line, whatever number is claimed.
    for (uint64_t left = words.number(line_limit); left > 0; --left) out.push_back(read_peer(words));
    return out;
}

std::vector<unsigned> read_sources(std::string_view word, size_t peers) {
    std::vector<unsigned> out;
    if (word == none) return out;
    for (const std::string& place : split(word, ',')) {
        out.push_back(static_cast<unsigned>(Words::number_of(place, UINT32_MAX)));
        need(out.back() < peers && out.size() <= source_limit);
    }
    return out;
}

LayerRole read_role(Words& words, size_t peers) {
    LayerRole out;
    std::string_view word = words.next();
    need(word == "own" || word == "take");
    out.is_owner = word == "own";
    for (std::vector<unsigned>& list : out.sources) list = read_sources(words.next(), peers);
    return out;
}

Enter read_enter(Words& words) {
    Peer self = read_peer(words);
    unsigned rank = words.place(UINT32_MAX);
    Digest image = words.digest();
    return {self, rank, image, words.number()};
}

Hello read_hello(Words& words) {
    Enter start = read_enter(words);
    // The release before this one had no link, and is told that it is another one.
    uint64_t link = start.release == release ? words.number() : 0;
    return {start.self, start.rank, start.image, start.release, link};
}

Roster read_roster(Words& words) {
    Roster out;
    std::string_view own = words.next();
    if (own != none) out.own = static_cast<unsigned>(Words::number_of(own, UINT32_MAX));
    out.peers = read_peers(words);
    need(!out.own || *out.own < out.peers.size());
    return out;
}

Documents read_documents(Words& words) {
    Documents out;
    for (uint64_t left = words.number(document_limit); left > 0; --left) {
        Digest digest = words.digest();
        std::string type = words.bytes();
        need(type.size() <= 255 && printable(type) == type);
        out.documents.push_back({digest, type, words.bytes()});
    }
    return out;
}

Have read_have(Words& words) {
    Have out;
    for (uint64_t left = words.number(layer_limit); left > 0; --left) out.sizes.push_back(words.number());
    std::string_view flags = words.next();
    if (out.sizes.empty()) {
        need(flags == none);
        return out;
    }
    need(flags.size() == out.sizes.size() && flags.find_first_not_of("01") == std::string_view::npos);
    for (char flag : flags) out.has.push_back(flag == '1');
    return out;
}

Sealed read_sealed(Words& words) {
    unsigned layer = words.layer();
    uint64_t size = words.number();
    return {layer, size, words.digest()};
}

/// From the tracker.
Sealed read_owned_sealed(Words& words) {
    Sealed out = read_sealed(words);
    out.owner = words.name();
    return out;
}

Complaint read_complaint(Words& words) {
    std::string key = words.key();
    unsigned layer = words.layer();
    std::string_view word = words.next();
    for (Fault fault : {Fault::silent, Fault::wrong, Fault::gone})
        if (word == fault_word(fault)) return {key, layer, fault, words.reason()};
    throw NoMessage{};
}

std::vector<LayerProgress> read_layers(std::string_view word) {
    std::vector<LayerProgress> out;
    if (word == none) return out;
    for (std::string& text : split(word, ',')) {
        bool is_awaited = text.ends_with('+');
        if (is_awaited) text.pop_back();
        out.push_back({static_cast<uint32_t>(Words::number_of(text, UINT32_MAX)), is_awaited});
        need(out.size() <= layer_limit);
    }
    return out;
}

Progress read_progress(Words& words) {
    Progress out;
    for (uint64_t* number : {&out.registry, &out.peers, &out.behind, &out.sent}) *number = words.number();
    out.is_at_work = words.number(1) == 1;
    out.layers = read_layers(words.next());
    return out;
}

StepStatus read_status(Words& words) {
    StepStatus out;
    out.nodes = words.place(UINT32_MAX);
    out.ready = words.place(UINT32_MAX);
    for (uint64_t* number : {&out.registry, &out.peers, &out.rate, &out.median}) *number = words.number();
    out.last = words.name();
    if (out.last == none) out.last.clear();
    out.last_bytes = words.number();
    out.last_total = words.number();
    out.is_told_here = words.number(1) == 1;
    return out;
}

Plan read_plan(Words& words) {
    Plan out;
    out.peers = read_peers(words);
    for (uint64_t left = words.number(layer_limit); left > 0; --left)
        out.layers.push_back(read_role(words, out.peers.size()));
    return out;
}

NewRole read_new_role(Words& words) {
    NewRole out;
    out.layer = words.layer();
    out.peers = read_peers(words);
    out.role = read_role(words, out.peers.size());
    return out;
}

/// Failed and Alone.
template <typename Message>
Message read_about_layer(Words& words) {
    auto layer = words.layer_or_none();
    return {layer, words.reason()};
}

FromNode from_node(std::string_view kind, Words& words) {
    if (kind == "hello") return read_hello(words);
    if (kind == "enter") return read_enter(words);
    if (kind == "documents") return read_documents(words);
    if (kind == "have") return read_have(words);
    if (kind == "sealed") return read_sealed(words);
    if (kind == "done") return Done{words.layer()};
    if (kind == "failed") return read_about_layer<Failed>(words);
    if (kind == "complaint") return read_complaint(words);
    if (kind == "progress") return read_progress(words);
    if (kind == "proved") return Proved{words.layer()};
    need(kind == "finished");
    return Finished{};
}

ToNode to_node(std::string_view kind, Words& words) {
    if (kind == "fetch") return Fetch{};
    if (kind == "documents") return read_documents(words);
    if (kind == "plan") return read_plan(words);
    if (kind == "sealed") return read_owned_sealed(words);
    if (kind == "role") return read_new_role(words);
    if (kind == "alone") return read_about_layer<Alone>(words);
    if (kind == "status") return read_status(words);
    if (kind == "roster") return read_roster(words);
    if (kind == "proved") return Proved{words.layer()};
    if (kind == "gone") return Gone{static_cast<unsigned>(words.number(UINT32_MAX))};
    need(kind == "end");
    return End{};
}

template <typename Message>
std::optional<Message> read_whole(std::string_view text, Message (*read)(std::string_view, Words&)) try {
    need(text.size() <= line_limit);
    Words words(text);
    std::string_view kind = words.next();
    Message out = read(kind, words);
    words.end();
    return out;
} catch (const NoMessage&) {
    return std::nullopt;
}

}  // namespace

std::string words_of(const FromNode& message) { return std::visit(Writer{}, message); }
std::string words_of(const ToNode& message) { return std::visit(Writer{}, message); }

std::optional<FromNode> read_from_node(std::string_view words) { return read_whole<FromNode>(words, from_node); }
std::optional<ToNode> read_to_node(std::string_view words) { return read_whole<ToNode>(words, to_node); }

}  // namespace berth::pull::share
