#include "runtime/apptainer/variables.hh"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/images/sif_environment.hh"
#include "runtime/request/expand.hh"

namespace berth::apptainer {

namespace {

constexpr std::string_view env_prefixes[] = {"APPTAINERENV_", "SINGULARITYENV_"};
constexpr std::string_view path_names[] = {"PREPEND_PATH", "APPEND_PATH", "PATH"};
/// Of the node's; they pass whatever --cleanenv says.
constexpr std::string_view always[] = {"TERM",     "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "no_proxy",
                                       "NO_PROXY", "all_proxy",  "ALL_PROXY",  "ftp_proxy",   "FTP_PROXY"};
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

/// $NAME as ${NAME-}, which is nothing where it is not set; what else a shell would do with a $ is left as it is.
std::string with_braces(std::string_view text) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        out += text[i];
        if (text[i] != '$') continue;
        size_t end = i + 1;
        while (end < text.size() && plan::is_variable_name(text.substr(i + 1, end - i))) ++end;
        if (end == i + 1) continue;
        out += cat('{', text.substr(i + 1, end - i - 1), "-}");
        i = end - 1;
    }
    return out;
}

bool is_to_be_expanded(std::string_view value) {
    size_t at = value.find('$');
    return at != value.npos && at + 1 < value.size() &&
           (value[at + 1] == '{' || plan::is_variable_name(value.substr(at + 1, 1)));
}

class Taker {
  public:
    explicit Taker(bool eval) : eval_(eval) {}

    /// The first one of a name counts.
    void take(const std::string& name, const std::string& value, const std::string& as) {
        if (!seen_.insert(name).second) return;
        if (name == "HOME" || name == "APPTAINER_SHELL" || name == "SINGULARITY_SHELL") {
            out_.warnings.push_back(cat("Overriding ", name, " environment variable with ", as, " is not permitted",
                                        name == "HOME" ? "; write --home" : ""));
            return;
        }
        if (is_among(path_names, name))
            (name == "PATH" ? path_ : name == "PREPEND_PATH" ? before_ : after_) = value;
        else
            add(name, value);
    }

    Variables variables() {
        if (!path_.empty())
            add("PATH", path_);
        else if (!before_.empty() || !after_.empty())
            out_.expanded.push_back(cat("PATH=", escaped(before_), before_.empty() ? "" : ":", "${PATH}",
                                        after_.empty() ? "" : ":", escaped(after_)));
        return std::move(out_);
    }

  private:
    void add(const std::string& name, const std::string& value) {
        if (!plan::is_variable_name(name)) return;
        if (eval_ && is_to_be_expanded(value))
            out_.expanded.push_back(cat(name, "=", with_braces(value)));
        else
            out_.set.push_back(cat(name, "=", value));
    }

    std::string escaped(const std::string& value) const {
        if (eval_) return with_braces(value);
        std::string out;
        for (char letter : value) out += letter == '$' ? "$$" : std::string(1, letter);
        return out;
    }

    bool eval_;
    std::set<std::string> seen_;
    std::string before_, after_, path_;
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
                       const std::vector<std::string>& environment) {
    Taker taker(!given.contains("no-eval") && !given.contains("compat"));
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
