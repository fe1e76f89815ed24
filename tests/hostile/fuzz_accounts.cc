// The passwd and group files of images, which get the caller's line. The first line of an input is the caller's name,
// the second his number; the rest is the file.
#include "runtime/base/text.hh"
#include "runtime/plan/plan.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;

void run(std::string_view input) {
    std::string name(hostile::take_line(input)), number(hostile::take_line(input)), content(input);
    // As add_accounts() of plan.cc writes them.
    std::erase(name, ':');
    std::erase(number, ':');
    plan::AccountLine edit{"/etc/passwd", cat(name, ":x:", number, ":1::/home:/bin/sh"), 2};
    std::string changed = plan::with_account_line(content, edit);
    hostile::must(changed.ends_with(edit.line + "\n"), "the caller has no line");
    hostile::must(changed.size() <= content.size() + edit.line.size() + 2, "the file grows by more than a line");
    hostile::must(plan::with_account_line(changed, edit) == changed, "a second time the file changes again");
    changed.resize(changed.size() - edit.line.size() - 1);
    for (const std::string& line : split(changed, '\n')) {
        if (line.empty()) continue;
        std::vector<std::string> fields = split(line, ':');
        hostile::must(fields[0] != name, "another line has the caller's name");
        hostile::must(fields.size() < 3 || fields[2] != number, "another line has the caller's number");
        hostile::must(cat("\n", content, "\n").find(cat("\n", line, "\n")) != std::string::npos, "a line is a new one");
    }
}

const hostile::Registration registration("accounts", run);

}  // namespace
