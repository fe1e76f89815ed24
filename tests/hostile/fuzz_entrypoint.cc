// What an image's entrypoint tells: its process, its environment, what it prints. The first byte of an input chooses.
#include <algorithm>

#include "runtime/base/text.hh"
#include "runtime/container/entrypoint_report.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

/// As run_entrypoint() reads it: 32 bytes of a pipe.
void run_report(std::string_view input) {
    auto process = reported_process(input.substr(0, 32));
    must(!process || *process >= 0, "a process has a negative number");
}

/// As it comes from the pipe, in pieces of any size.
void run_log(std::string_view input) {
    EntrypointLog log;
    size_t piece = 1 + 31 * hostile::take_byte(input), shown = 0, repeats = hostile::take_byte(input);
    // Large ones often enough for the limits.
    for (size_t left = piece > 1000 ? 1 + repeats : 1; left > 0; --left)
        for (std::string_view rest = input; !rest.empty();)
            log.take(hostile::take(rest, std::min<size_t>(piece, 4096)), [&](const std::string& line) {
                must(hostile::is_plain_line(line), "a line has control characters in it");
                shown += line.size();
            });
    must(hostile::is_plain_line(log.last()), "the last line has control characters in it");
    // A byte that is no text is shown as four characters.
    must(shown <= 4 << 20, "more is shown than the limit");
}

/// The text that gives `name` a value last; nothing when none does.
const std::string* last_of(const std::vector<std::string>& environment, const std::string& name) {
    for (size_t i = environment.size(); i-- > 0;)
        if (environment[i].starts_with(name + "=")) return &environment[i];
    return nullptr;
}

/// Two environments with an empty text between them.
void run_environment(std::string_view input) {
    std::vector<std::string> before, after, *now = &before;
    for (const std::string& text : split(input, '\0')) {
        if (text.empty()) now = &after;
        now->push_back(text);
    }
    for (const auto& [name, value] : differences(before, after)) {
        must(!name.empty() && name.find('=') == name.npos, "a change has no name that is one");
        const std::string* is = last_of(after, name);
        must(value ? is && *is == cat(name, '=', *value) : !is, "a change leads elsewhere");
        must(value || last_of(before, name), "what was not there is taken away");
    }
    for (const std::string& text : after)
        if (size_t equals = text.find('='); equals == 0) must(differences({}, {text}).empty(), "no name is a name");
    must(differences(after, after).empty(), "there are changes where there is no difference");
}

void run(std::string_view input) {
    unsigned which = hostile::take_byte(input) % 3;
    if (which == 0) run_report(input);
    if (which == 1) run_log(input);
    if (which == 2) run_environment(input);
}

const hostile::Registration registration("entrypoint", run);

}  // namespace
