#include "runtime/migrate/value.hh"

#include <algorithm>
#include <iterator>

#include "runtime/base/text.hh"

namespace berth::migrate {

namespace {

/// What berth.conf has for an expression.
struct Sign {
    std::string_view expression;
    std::string_view sign;
    Signs of = Signs::of_user;
};
constexpr Sign all_signs[] = {
    {"$UID", "%U"},
    {"$EUID", "%U"},
    {"$(id -u)", "%U"},
    {"$(id -ru)", "%U"},
    {"$USER", "%u"},
    {"$LOGNAME", "%u"},
    {"$(id -un)", "%u"},
    {"$(whoami)", "%u"},
    {"$HOME", "%h"},
    {"$XDG_CONFIG_HOME", "%h/.config"},
    {"$XDG_DATA_HOME", "%h/.local/share"},
    {"$XDG_CACHE_HOME", "%h/.cache"},
    {"$TMPDIR", "/tmp"},
    {"$SLURM_JOB_ID", "%j", Signs::of_job},
    {"$SLURM_JOBID", "%j", Signs::of_job},
    {"$SLURM_STEP_ID", "%s", Signs::of_job},
    {"$SLURMD_NODENAME", "%n", Signs::of_job},
    {"$HOSTNAME", "%n", Signs::of_job},
    {"$(hostname)", "%n", Signs::of_job},
    {"$(hostname -s)", "%n", Signs::of_job},
};

/// Empty when there is none.
std::string_view sign_of(std::string_view expression, Signs signs) {
    for (const Sign& one : all_signs)
        if (one.expression == expression && (one.of == Signs::of_user || signs == Signs::of_job)) return one.sign;
    return {};
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// `command` with single blanks.
std::string command_form(std::string_view command) {
    std::string out = "$(";
    for (const std::string& word : split(command, ' '))
        if (!trimmed(word).empty()) out += cat(out.size() > 2 ? " " : "", trimmed(word));
    return out + ")";
}

/// ${NAME:-word} as $NAME; what else stands in braces stays as it is.
std::string variable_form(std::string_view inside) {
    size_t name = 0;
    while (name < inside.size() && is_letter(inside[name])) ++name;
    std::string_view rest = inside.substr(name);
    bool plain = name > 0 && (rest.empty() || rest.starts_with(":-") || rest.starts_with('-'));
    return plain ? cat("$", inside.substr(0, name)) : cat("${", inside, "}");
}

class ValueParser {
  public:
    explicit ValueParser(std::string_view text) : text_(text) {}

    Value read() {
        for (; at_ < text_.size() && !(starts_word() && text_[at_] == '#'); ++at_) read_one();
        trim_end();
        return std::move(value_);
    }

  private:
    /// Whether an unquoted word begins here.
    bool starts_word() const {
        return quote_ == '\0' && (at_ == 0 || text_[at_ - 1] == ' ' || text_[at_ - 1] == '\t');
    }

    void read_one() {
        char c = text_[at_];
        if (quote_ == '\'' && c != '\'')
            add(c);
        else if (c == '\\' && at_ + 1 < text_.size())
            add(text_[++at_]);
        else if ((c == '\'' && quote_ != '"') || (c == '"' && quote_ != '\''))
            quote_ = quote_ == c ? '\0' : c;
        else if (c == '~' && starts_word() && (at_ + 1 == text_.size() || text_[at_ + 1] == '/'))
            add_expression("$HOME");
        else if (c == '$' || c == '`')
            read_expression();
        else if (quote_ == '\0' && (c == ' ' || c == '\t'))
            add_blank();
        else
            add(c);
    }

    /// Leaves `at_` on its last character.
    void read_expression() {
        char c = text_[at_], next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
        size_t end = c == '`' ? text_.find('`', at_ + 1)
                     : next == '(' ? closing('(', ')')
                     : next == '{' ? closing('{', '}')
                                   : std::string_view::npos;
        if (end != text_.npos) {
            size_t inside = at_ + (c == '`' ? 1 : 2);
            std::string_view text = text_.substr(inside, end - inside);
            add_expression(next == '{' && c == '$' ? variable_form(text) : command_form(text));
            at_ = end;
        } else if (c == '$' && is_letter(next)) {
            end = at_ + 1;
            while (end < text_.size() && is_letter(text_[end])) ++end;
            add_expression(std::string(text_.substr(at_, end - at_)));
            at_ = end - 1;
        } else {
            add(c);
        }
    }

    size_t closing(char open, char close) const {
        size_t depth = 0;
        for (size_t at = at_ + 1; at < text_.size(); ++at) {
            if (text_[at] == open) ++depth;
            if (text_[at] == close && --depth == 0) return at;
        }
        return text_.npos;
    }

    void add(char c) {
        if (value_.pieces.empty() || value_.pieces.back().expression) value_.pieces.emplace_back();
        value_.pieces.back().text += c;
    }
    void add_expression(std::string text) { value_.pieces.push_back({std::move(text), true}); }
    /// One for several.
    void add_blank() {
        bool after_text = !value_.pieces.empty() && !value_.pieces.back().expression;
        if (!after_text || !value_.pieces.back().text.ends_with(' ')) add(' ');
    }
    void trim_end() {
        if (value_.pieces.empty() || value_.pieces.back().expression) return;
        std::string& text = value_.pieces.back().text;
        while (text.ends_with(' ')) text.pop_back();
        if (text.empty()) value_.pieces.pop_back();
    }

    std::string_view text_;
    size_t at_ = 0;
    char quote_ = '\0';
    Value value_;
};

}  // namespace

std::string Value::expression() const {
    for (const Piece& piece : pieces)
        if (piece.expression) return piece.text;
    return {};
}

std::optional<std::string> Value::text() const {
    std::string out;
    for (const Piece& piece : pieces) {
        if (piece.expression) return std::nullopt;
        out += piece.text;
    }
    return out;
}

std::string Value::expression_without_sign(Signs signs) const {
    for (const Piece& piece : pieces)
        if (piece.expression && sign_of(piece.text, signs).empty()) return piece.text;
    return {};
}

std::optional<std::string> Value::path(Signs signs) const {
    if (!expression_without_sign(signs).empty()) return std::nullopt;
    std::string out;
    for (const Piece& piece : pieces) {
        if (piece.expression) {
            out += sign_of(piece.text, signs);
            continue;
        }
        for (char c : piece.text) out += c == '%' ? "%%" : std::string(1, c);
    }
    return out;
}

Value parse_value(std::string_view text) { return ValueParser(text).read(); }

Value parse_plain_value(std::string_view text) {
    Value out;
    auto add = [&](std::string_view part, bool expression) {
        if (!part.empty()) out.pieces.push_back({std::string(part), expression});
    };
    while (true) {
        size_t begin = text.find("${"), end = begin == text.npos ? text.npos : text.find('}', begin);
        if (end == text.npos) break;
        add(text.substr(0, begin), false);
        add(variable_form(text.substr(begin + 2, end - begin - 2)), true);
        text = text.substr(end + 1);
    }
    add(text, false);
    return out;
}

bool is_no(std::string_view word) {
    constexpr std::string_view words[] = {"", "n", "no", "N", "NO", "No", "f", "F", "false", "False", "FALSE"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace berth::migrate
