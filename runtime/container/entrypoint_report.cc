#include "runtime/container/entrypoint_report.hh"

#include <algorithm>
#include <array>
#include <map>

#include "runtime/base/text.hh"

namespace berth {

namespace {

constexpr size_t log_limit = 1 << 20;
/// What has no end of line by then is told as one.
constexpr size_t line_limit = 64 << 10;
constexpr size_t shown_limit = 4096;

/// By name; of one that is there twice the last value, as shells have it.
std::map<std::string, std::string> variables_of(const std::vector<std::string>& environment) {
    static constexpr std::array<std::string_view, 4> of_shells = {"_", "PWD", "OLDPWD", "SHLVL"};
    std::map<std::string, std::string> out;
    for (const std::string& text : environment) {
        size_t equals = text.find('=');
        if (equals == 0 || equals == text.npos) continue;
        std::string name = text.substr(0, equals);
        if (std::find(of_shells.begin(), of_shells.end(), name) == of_shells.end()) out[name] = text.substr(equals + 1);
    }
    return out;
}

}  // namespace

std::optional<pid_t> reported_process(std::string_view text) {
    uint64_t pid = 0;
    if (text.size() <= 1 || !parse_number(text.substr(0, text.size() - 1), INT32_MAX, pid)) return std::nullopt;
    return static_cast<pid_t>(pid);
}

void EntrypointLog::take(std::string_view bytes, const Show& show) {
    taken_ += bytes.size();
    size_t start = 0, seen = text_.size();
    text_ += bytes;
    if (text_.size() > line_limit) text_ += '\n';
    for (size_t end; (end = text_.find('\n', std::max(start, seen))) != text_.npos; start = end + 1) {
        std::string line = printable(std::string_view(text_).substr(start, end - start), shown_limit);
        if (!line.empty()) last_ = line;
        if (show && taken_ <= log_limit) show(line);
    }
    text_.erase(0, start);
}

std::string EntrypointLog::last() const { return text_.empty() ? last_ : printable(text_, shown_limit); }

std::vector<plan::EnvironmentChange> differences(const std::vector<std::string>& before,
                                                 const std::vector<std::string>& after) {
    std::map<std::string, std::string> was = variables_of(before), is = variables_of(after);
    std::map<std::string, std::optional<std::string>> changes;
    for (const auto& [name, value] : was)
        if (!is.contains(name)) changes[name] = std::nullopt;
    for (const auto& [name, value] : is)
        if (auto old = was.find(name); old == was.end() || old->second != value) changes[name] = value;
    std::vector<plan::EnvironmentChange> out;
    for (auto& [name, value] : changes) out.push_back({name, value});
    return out;
}

}  // namespace berth
