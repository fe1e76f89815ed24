#include "runtime/apptainer/variables.hh"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/images/sif_environment.hh"
#include "runtime/request/expand.hh"

namespace berth::apptainer {

namespace {

constexpr std::string_view env_prefixes[] = {"APPTAINERENV_", "SINGULARITYENV_"};
/// Of the node's; they pass whatever --cleanenv says.
constexpr std::string_view always[] = {"TERM",     "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy",
                                       "NO_PROXY", "all_proxy",  "ALL_PROXY",  "ftp_proxy",   "FTP_PROXY"};
/// Not by the user's variables.
constexpr std::string_view not_to_be_set[] = {"HOME", "APPTAINER_SHELL", "SINGULARITY_SHELL", "APPTAINER_APPNAME",
                                              "SINGULARITY_APPNAME"};
/// They say where things are on the node.
constexpr std::string_view never[] = {"HOME", "PATH", "LD_LIBRARY_PATH", "PS1", "PROMPT_COMMAND"};

template <typename Names>
bool is_among(const Names& names, std::string_view name) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> prefixes) {
    return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view one) { return name.starts_with(one); });
}

using Pair = std::pair<std::string, std::string>;

/// The pairs of one --env: with a single = all of it is one, commas included.
std::vector<Pair> pairs_of(const std::string& text) {
    bool is_one = std::count(text.begin(), text.end(), '=') == 1;
    std::vector<Pair> out;
    for (const std::string& field : is_one ? std::vector<std::string>{text} : csv_fields(text)) {
        size_t equals = field.find('=');
        if (equals == field.npos) throw Error(cat("--env ", printable(text, 4096), ": write NAME=VALUE"));
        out.emplace_back(field.substr(0, equals), field.substr(equals + 1));
    }
    return out;
}

/// The name of a variable that `text` begins with; empty: none.
std::string_view leading_name(std::string_view text) {
    size_t end = 0;
    while (end < text.size() && plan::is_variable_name(text.substr(0, end + 1))) ++end;
    return text.substr(0, end);
}

std::string escaped_for_shell(std::string_view text) {
    std::string out;
    for (char letter : text) {
        if (letter == '$' || letter == '`' || letter == '\\') out += '\\';
        out += letter;
    }
    return out;
}

/// Reads text as a shell does in double quotes, but for what takes a shell.
class QuotedText {
  public:
    QuotedText(std::string_view text, const Ids& ids) : text_(text), ids_(ids) {
        while (!text_.empty() && !needs_shell_) take();
    }

    /// The same for `env` of an environment: ${NAME-} for a variable, $$ for a dollar sign; nothing where it needs a
    /// shell, for a command's output or the like.
    std::optional<std::string> words() const { return needs_shell_ ? std::nullopt : std::optional(out_); }
    /// That they are the value itself.
    bool is_plain() const { return is_plain_; }

  private:
    static constexpr std::string_view specials = "$?!#*@-(0123456789";

    void take() {
        char next = text_.size() > 1 ? text_[1] : '\0';
        if (text_[0] == '\\' && (next == '$' || next == '`' || next == '\\')) {
            out_ += next == '$' ? "$$" : std::string(1, next);
            is_plain_ &= next != '$';
            text_.remove_prefix(2);
        } else if (text_[0] == '`' || (text_[0] == '$' && next != '\0' && specials.find(next) != specials.npos)) {
            needs_shell_ = true;
        } else if (text_.starts_with("${")) {
            take_braces();
        } else if (std::string_view name = text_[0] == '$' ? leading_name(text_.substr(1)) : ""; !name.empty()) {
            out_ += value_of(name);
            text_.remove_prefix(1 + name.size());
        } else {
            out_ += text_[0];
            text_.remove_prefix(1);
        }
    }

    /// ${NAME}, and with -, :-, +, :+ and a plain word; a shell has more.
    void take_braces() {
        std::string_view inside = text_.substr(2, text_.substr(2).find('}')), name = leading_name(inside);
        bool closed = inside.size() + 2 < text_.size();
        std::string_view rest = inside.substr(name.size());
        bool plain = rest.find_first_of("$`\\\"") == rest.npos;
        std::string_view sign = rest.substr(rest.starts_with(':') ? 1 : 0);
        bool known = rest.empty() || sign.starts_with('-') || sign.starts_with('+');
        needs_shell_ = !closed || name.empty() || !plain || !known;
        is_plain_ &= rest.empty();
        out_ += rest.empty() ? value_of(name) : cat("${", inside, "}");
        if (closed) text_.remove_prefix(inside.size() + 3);
    }

    std::string value_of(std::string_view name) {
        if (name == "UID" || name == "EUID") return cat(ids_.uid);
        if (name == "GID") return cat(ids_.gid);
        is_plain_ = false;
        return cat("${", name, "-}");
    }

    std::string_view text_;
    const Ids& ids_;
    std::string out_;
    bool needs_shell_ = false, is_plain_ = true;
};

class Taker {
  public:
    Taker(bool eval, const Ids& ids) : eval_(eval), ids_(ids) {}

    /// The first one of a name counts.
    void take(const std::string& name, const std::string& value, const std::string& as) {
        if (!seen_.insert(name).second) return;
        if (is_among(not_to_be_set, name)) {
            out_.warnings.push_back(cat("Overriding ", name, " environment variable with ", as, " is not permitted",
                                        name == "HOME" ? "; write --home" : ""));
            return;
        }
        if (name == "PATH")
            path_ = value;
        else if (name.starts_with(before) || name.starts_with(after))
            around_[name] = value;
        else
            add(name, value);
    }

    Variables variables() {
        if (!path_.empty())
            add("PATH", path_);
        else
            add_around("PATH", "${PATH}");
        // An empty part of it would be the working directory.
        add_around("LD_LIBRARY_PATH", "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH}");
        for (const auto& [name, value] : around_) add(name, value);
        return std::move(out_);
    }

  private:
    static constexpr std::string_view before = "PREPEND_", after = "APPEND_";

    void add(const std::string& name, const std::string& value) {
        if (eval_)
            add_text(name, value);
        else if (plan::is_variable_name(name))
            out_.set.push_back(cat(name, "=", value));
    }

    /// `text` as a shell reads it in double quotes.
    void add_text(const std::string& name, const std::string& text) {
        if (!plan::is_variable_name(name)) return;
        QuotedText read(text, ids_);
        std::optional<std::string> words = read.words();
        auto& where = !words ? out_.evaluated : read.is_plain() ? out_.set : out_.expanded;
        where.push_back(cat(name, "=", words ? *words : text));
    }

    /// What PREPEND_NAME and APPEND_NAME say.
    void add_around(const std::string& name, const std::string& text) {
        auto taken = [&](std::string_view prefix) {
            auto found = around_.find(cat(prefix, name));
            if (found == around_.end()) return std::string();
            std::string out = eval_ ? found->second : escaped_for_shell(found->second);
            around_.erase(found);
            return out;
        };
        std::string first = taken(before), last = taken(after);
        if (first.empty() && last.empty()) return;
        bool may_miss = text.find(":+") != text.npos;
        auto colon = [&](bool wanted, const char* side) {
            return !wanted ? "" : may_miss ? cat("${", name, ":+", side, "}") : std::string(side);
        };
        add_text(name, cat(first, colon(!first.empty(), ":"), text, colon(!last.empty(), ":"), last));
    }

    bool eval_;
    const Ids& ids_;
    std::set<std::string> seen_;
    std::string path_;
    std::map<std::string, std::string> around_;  ///< PREPEND_NAME and APPEND_NAME
    Variables out_;
};

}  // namespace

std::vector<std::string> lines_of_file(std::string_view content, const std::string& path) {
    std::vector<std::string> out;
    size_t number = 0;
    for (const std::string& line : split(content, '\n')) {
        ++number;
        std::string_view text = trimmed(line);
        if (text.empty() || text[0] == '#') continue;
        SifEnvironment read;
        read.read(text);
        if (read.unread > 0 || read.env.size() != 1)
            throw Error(
                cat("--env-file ", printable(path, 4096), ": line ", number,
                    " is not NAME=VALUE; no shell reads the file, so write the value itself, in quotes where it "
                    "has blanks"));
        out.push_back(read.env[0]);
    }
    return out;
}

Variables variables_of(const Given& given, const std::vector<std::vector<std::string>>& files,
                       const std::vector<std::string>& environment, const Ids& ids) {
    Taker taker(!given.contains("no-eval") && !given.contains("compat"), ids);
    if (auto env = given.find("env"); env != given.end())
        for (auto text = env->second.rbegin(); text != env->second.rend(); ++text) {
            std::vector<Pair> pairs = pairs_of(*text);
            for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair)
                taker.take(pair->first, pair->second, "APPTAINERENV_" + pair->first);
        }
    for (auto file = files.rbegin(); file != files.rend(); ++file)
        for (auto line = file->rbegin(); line != file->rend(); ++line) {
            std::string name = line->substr(0, line->find('='));
            taker.take(name, line->substr(name.size() + 1), "APPTAINERENV_" + name);
        }
    for (std::string_view prefix : env_prefixes)
        for (const std::string& text : environment) {
            size_t equals = text.find('=');
            if (!text.starts_with(prefix) || equals == text.npos) continue;
            taker.take(text.substr(prefix.size(), equals - prefix.size()), text.substr(equals + 1),
                       text.substr(0, equals));
        }
    return taker.variables();
}

std::function<bool(const std::string& name)> passing(const Given& given) {
    bool clean = given.contains("cleanenv") || given.contains("containall") || given.contains("compat");
    std::set<std::string> blocked;
    if (auto names = given.find("no-env"); names != given.end())
        for (const std::string& text : names->second)
            for (const std::string& name : csv_fields(text)) blocked.insert(std::string(trimmed(name)));
    return [clean, blocked](const std::string& name) {
        if (is_among(always, name)) return !blocked.contains(name);
        bool ours = starts_with_any(name, {"APPTAINER_", "SINGULARITY_", "APPTAINERENV_", "SINGULARITYENV_"});
        return !clean && !ours && !is_among(never, name) && !blocked.contains(name) && plan::is_variable_name(name);
    };
}

}  // namespace berth::apptainer
