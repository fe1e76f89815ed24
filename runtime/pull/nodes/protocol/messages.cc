#include "runtime/pull/nodes/protocol/messages.hh"

#include <algorithm>
#include <concepts>
#include <limits>

#include "runtime/base/text.hh"
#include "runtime/oci/base64.hh"
#include "runtime/pull/nodes/protocol/agreement.hh"

namespace berth::pull::nodes {

namespace {

constexpr size_t document_limit = 16;
constexpr size_t source_limit = 64;  // of a stripe
constexpr size_t type_limit = 255;
constexpr const char* none = "-";
constexpr const char* key_start = "sha256//";

std::string fit_reason(const std::string& reason) {
    bool is_fit = reason.size() <= reason_limit && printable(reason, reason.size()) == reason;
    // Four bytes stand for one that is not printable.
    return is_fit ? reason : printable(reason, reason_limit / 4 - 1);
}

/// Writes fields as words; Reader reads them, with the same functions.
class Writer {
  public:
    explicit Writer(std::string start) : out_(std::move(start)) {}

    std::string take() { return std::move(out_); }
    void word(std::string_view word) { out_ += cat(' ', word); }

    void number(uint64_t value, uint64_t = 0) { word(std::to_string(value)); }
    void flag(bool value) { number(value ? 1 : 0); }
    void name(const std::string& value) { word(value); }
    void name_or_none(const std::string& value) { word(value.empty() ? none : value); }
    void key(const std::string& value) { word(value); }
    void digest(const Digest& value) { word(value.text()); }
    void bytes(std::string_view value) { word(value.empty() ? none : oci::encode_base64(value)); }
    void reason(const std::string& value) { bytes(fit_reason(value)); }
    void number_or_none(const std::optional<unsigned>& value, uint64_t) { word(value ? std::to_string(*value) : none); }
    void flags(const std::vector<bool>& value, size_t) {
        std::string text;
        for (bool flag : value) text += flag ? '1' : '0';
        name_or_none(text);
    }
    void list(const auto& values, size_t, const auto& each) {
        number(values.size());
        for (const auto& value : values) each(value);
    }
    /// A word for a value, of those in `words`.
    void choice(auto value, const auto& words) { word(words[static_cast<size_t>(value)]); }
    // At the end of a message.
    void optional(const auto& value, const auto& each) {
        if (value) each(*value);
    }
    void optional_name(const std::string& value) {
        if (!value.empty()) name(value);
    }
    void pass_over_rest(bool) {}

  private:
    std::string out_;
};

/// Thrown and caught in this file: the words are no message.
struct NoMessage {};

void need(bool holds) {
    if (!holds) throw NoMessage{};
}

class Reader {
  public:
    explicit Reader(std::string_view rest) : rest_(rest) {}

    std::string_view next() {
        need(!ended_);
        size_t space = rest_.find(' ');
        std::string_view out = rest_.substr(0, space);
        ended_ = space == std::string_view::npos;
        rest_ = ended_ ? std::string_view() : rest_.substr(space + 1);
        need(!out.empty());
        return out;
    }
    /// Nothing may follow.
    void end() const { need(ended_); }

    template <std::unsigned_integral T>
    void number(T& value, uint64_t limit = std::numeric_limits<T>::max()) {
        value = static_cast<T>(number_of(next(), limit));
    }
    void flag(bool& value) { value = number_of(next(), 1) == 1; }
    void name(std::string& value) {
        value = next();
        need(is_word(value));
    }
    void name_or_none(std::string& value) {
        name(value);
        if (value == none) value.clear();
    }
    /// "sha256//" and a SHA-256 in base64.
    void key(std::string& value) {
        value = next();
        need(value.starts_with(key_start));
        auto hash = oci::decode_base64(std::string_view(value).substr(std::string_view(key_start).size()));
        need(hash && hash->size() == 32 && cat(key_start, oci::encode_base64(*hash)) == value);
    }
    void digest(Digest& value) {
        auto read = Digest::parse(next());
        need(read.has_value());
        value = *read;
    }
    void bytes(std::string& value) {
        std::string_view word = next();
        value.clear();
        if (word == none) return;
        auto read = oci::decode_base64(word);
        need(read && !read->empty() && oci::encode_base64(*read) == word);
        value = std::move(*read);
    }
    void reason(std::string& value) {
        bytes(value);
        need(value.size() <= reason_limit && printable(value, value.size()) == value);
    }
    void number_or_none(std::optional<unsigned>& value, uint64_t limit) {
        std::string_view word = next();
        if (word != none) value = static_cast<unsigned>(number_of(word, limit));
    }
    void flags(std::vector<bool>& value, size_t count) {
        std::string_view word = next();
        if (count == 0) return need(word == none);
        need(word.size() == count && word.find_first_not_of("01") == std::string_view::npos);
        for (char flag : word) value.push_back(flag == '1');
    }
    /// Each takes more than a byte of the line, whatever number is claimed.
    void list(auto& values, size_t limit, const auto& each) {
        for (uint64_t left = number_of(next(), limit); left > 0; --left) each(values.emplace_back());
    }
    template <typename T>
    void choice(T& value, const auto& words) {
        auto found = std::ranges::find(words, next());
        need(found != std::end(words));
        value = static_cast<T>(found - std::begin(words));
    }
    void optional(auto& value, const auto& each) {
        if (!ended_) each(value.emplace());
    }
    void optional_name(std::string& value) {
        if (!ended_) name(value);
    }
    void pass_over_rest(bool does) { ended_ = ended_ || does; }

  private:
    static uint64_t number_of(std::string_view word, uint64_t limit) {
        uint64_t out = 0;
        need(parse_number(word, limit, out) && std::to_string(out) == word);
        return out;
    }

    std::string_view rest_;
    bool ended_ = false;
};

// The fields of each message, for both. `Is<T> auto&` is a T, which the writer does not change.

template <typename T, typename Message>
concept Is = std::same_as<std::remove_const_t<T>, Message>;

void fields(auto& io, Is<Peer> auto& it) {
    io.name(it.node);
    io.name(it.address);
    io.number(it.port);
    io.key(it.key);
}

void peers(auto& io, auto& list) {
    io.list(list, line_limit, [&](auto& peer) { fields(io, peer); });
}

constexpr std::array<std::string_view, 2> ways{"whole", "lazy"};
constexpr std::array<std::string_view, 2> roles{"take", "own"};
constexpr std::array<std::string_view, 3> faults{"silent", "wrong", "gone"};

/// Other releases say less, or something else: whoever sends that is told so, and no more is read of it.
void fields(auto& io, Is<Hello> auto& it) {
    constexpr uint64_t first_with_link = 4, first_with_way = 5;
    fields(io, it.self);
    io.number(it.rank);
    io.digest(it.image);
    io.number(it.release);
    bool is_newer = it.release > release;
    if (it.release >= first_with_link && !is_newer) io.number(it.link);
    if (it.release >= first_with_way && !is_newer) io.choice(it.is_lazy, ways);
    io.pass_over_rest(is_newer);
}

void fields(auto& io, Is<Documents> auto& it) {
    io.list(it.documents, document_limit, [&](auto& document) {
        io.digest(document.digest);
        io.bytes(document.content_type);
        io.bytes(document.bytes);
    });
}

void fields(auto& io, Is<Have> auto& it) {
    io.list(it.sizes, layer_limit, [&](auto& size) { io.number(size); });
    io.flags(it.has, it.sizes.size());
}

void fields(auto& io, Is<Done> auto& it) {
    io.number(it.layer, layer_limit - 1);
    io.optional(it.sum, [&](auto& sum) {
        io.number(sum.size);
        io.digest(sum.chunks);
        io.optional_name(sum.owner);
    });
}

void fields(auto& io, Is<Alone> auto& it) {
    io.number_or_none(it.layer, layer_limit - 1);
    io.reason(it.reason);
}

void fields(auto& io, Is<Complaint> auto& it) {
    io.key(it.key);
    io.number(it.layer, layer_limit - 1);
    io.choice(it.fault, faults);
    io.reason(it.reason);
}

void fields(auto& io, Is<Progress> auto& it) {
    for (auto* number : {&it.registry, &it.peers, &it.behind, &it.sent}) io.number(*number);
    io.flag(it.is_at_work);
    io.list(it.layers, layer_limit, [&](auto& layer) {
        io.number(layer.chunks);
        io.flag(layer.is_awaited);
    });
}

void fields(auto&, Is<Finished> auto&) {}

void fields(auto& io, Is<LayerRole> auto& it) {
    io.choice(it.is_owner, roles);
    for (auto& list : it.sources) io.list(list, source_limit, [&](auto& source) { io.number(source); });
}

void fields(auto& io, Is<Plan> auto& it) {
    io.number_or_none(it.own, UINT32_MAX);
    peers(io, it.peers);
    io.list(it.layers, layer_limit, [&](auto& role) { fields(io, role); });
}

void fields(auto& io, Is<NewRole> auto& it) {
    io.number(it.layer, layer_limit - 1);
    peers(io, it.peers);
    fields(io, it.role);
}

void fields(auto& io, Is<Gone> auto& it) {
    io.number(it.node);
}

void fields(auto& io, Is<StepStatus> auto& it) {
    io.number(it.nodes);
    io.number(it.ready);
    for (auto* number : {&it.registry, &it.peers, &it.rate, &it.median}) io.number(*number);
    io.name_or_none(it.last);
    io.number(it.last_bytes);
    io.number(it.last_total);
    io.flag(it.is_told_here);
}

// What fields alone do not say.

bool is_good(const auto&, Sender) {
    return true;
}

bool is_good(const Documents& it, Sender) {
    return std::ranges::all_of(it.documents, [](const ImageDocument& one) {
        return one.content_type.size() <= type_limit && printable(one.content_type) == one.content_type;
    });
}

/// Only the tracker says whose sum it is.
bool is_good(const Done& it, Sender sender) {
    return !it.sum || it.sum->owner.empty() == (sender == Sender::node);
}

bool is_good(const LayerRole& role, size_t peers) {
    return std::ranges::all_of(role.sources, [&](const std::vector<unsigned>& list) {
        return std::ranges::all_of(list, [&](unsigned source) { return source < peers; });
    });
}

bool is_good(const NewRole& it, Sender) {
    return is_good(it.role, it.peers.size());
}

bool is_good(const Plan& it, Sender) {
    return (!it.own || *it.own < it.peers.size()) &&
           std::ranges::all_of(it.layers, [&](const LayerRole& role) { return is_good(role, it.peers.size()); });
}

/// A message's first word, and who says it, in the order of the variant.
struct Kind {
    std::string_view word;
    bool by_node, by_tracker;
};
constexpr std::array<Kind, std::variant_size_v<Message>> kinds{{{"hello", true, false},
                                                                {"have", true, false},
                                                                {"complaint", true, false},
                                                                {"progress", true, false},
                                                                {"documents", true, true},
                                                                {"done", true, true},
                                                                {"alone", true, true},
                                                                {"finished", true, true},
                                                                {"plan", false, true},
                                                                {"role", false, true},
                                                                {"gone", false, true},
                                                                {"status", false, true}}};

template <size_t Number = 0>
Message read(size_t number, Reader& words, Sender sender) {
    if constexpr (Number < std::variant_size_v<Message>) {
        if (number != Number) return read<Number + 1>(number, words, sender);
        std::variant_alternative_t<Number, Message> out;
        fields(words, out);
        words.end();
        need(is_good(out, sender));
        return out;
    }
    throw NoMessage{};
}

}  // namespace

Digest unread_digest() {
    static const Digest out("sha256:" + std::string(64, '0'));
    return out;
}

std::string words_of(const Message& message) {
    Writer out{std::string(kinds[message.index()].word)};
    std::visit([&](const auto& it) { fields(out, it); }, message);
    return out.take();
}

std::optional<Message> read_message(std::string_view words, Sender sender) try {
    need(words.size() <= line_limit);
    Reader reader(words);
    std::string_view word = reader.next();
    auto said = std::ranges::find_if(kinds, [&](const Kind& kind) {
        return kind.word == word && (sender == Sender::node ? kind.by_node : kind.by_tracker);
    });
    return read(static_cast<size_t>(said - kinds.begin()), reader, sender);
} catch (const NoMessage&) {
    return std::nullopt;
}

}  // namespace berth::pull::nodes
