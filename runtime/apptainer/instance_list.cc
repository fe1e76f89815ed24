#include "runtime/apptainer/instance_list.hh"

#include <signal.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::apptainer {

namespace {

using nlohmann::ordered_json;

constexpr size_t gap = 4;

struct Signal {
    const char* name;
    int number;
};

constexpr Signal signals[] = {{"HUP", SIGHUP},   {"INT", SIGINT},    {"QUIT", SIGQUIT}, {"ABRT", SIGABRT},
                              {"KILL", SIGKILL}, {"USR1", SIGUSR1},  {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},
                              {"ALRM", SIGALRM}, {"TERM", SIGTERM},  {"CONT", SIGCONT}, {"STOP", SIGSTOP},
                              {"TSTP", SIGTSTP}, {"WINCH", SIGWINCH}};

}  // namespace

std::string columns(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const auto& row : rows) {
        for (size_t i = 0; i + 1 < row.size(); ++i) out += row[i] + std::string(widths[i] + gap - row[i].size(), ' ');
        out += row.back() + "\n";
    }
    return out;
}

std::string instance_table(const std::vector<ListedInstance>& instances, bool logs) {
    std::vector<std::vector<std::string>> rows;
    if (logs)
        rows.push_back({"INSTANCE NAME", "PID", "LOGS"});
    else
        rows.push_back({"INSTANCE NAME", "PID", "IP", "IMAGE"});
    for (const ListedInstance& one : instances) {
        if (logs) {
            rows.push_back({one.name, cat(one.pid), printable(one.err, 4096)});
            rows.push_back({"", "", printable(one.out, 4096)});
        } else {
            rows.push_back({one.name, cat(one.pid), "", printable(one.image, 4096)});
        }
    }
    return columns(rows);
}

std::string instance_json(const std::vector<ListedInstance>& instances) {
    ordered_json list = ordered_json::array();
    for (const ListedInstance& one : instances)
        list.push_back({{"instance", one.name},
                        {"pid", one.pid},
                        {"img", one.image},
                        {"ip", ""},
                        {"logErrPath", one.err},
                        {"logOutPath", one.out}});
    return ordered_json{{"instances", list}}.dump(1, '\t', false, ordered_json::error_handler_t::replace) + "\n";
}

int signal_of(const std::string& word) {
    uint64_t number = 0;
    if (parse_number(word, 64, number) && number > 0) return static_cast<int>(number);
    std::string name = word.starts_with("SIG") ? word.substr(3) : word;
    auto found = std::ranges::find_if(signals, [&](const Signal& one) { return name == one.name; });
    if (found == std::end(signals))
        throw Error(
            cat("--signal ", printable(word), ": there is no such signal; write a name, as SIGTERM, or a number"));
    return found->number;
}

}  // namespace berth::apptainer
