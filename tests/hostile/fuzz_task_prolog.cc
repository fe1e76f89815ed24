// What the site's TaskProlog prints.
#include "runtime/base/text.hh"
#include "spank/task_prolog.hh"
#include "tests/hostile/target.hh"

namespace {

using namespace berth;
using hostile::must;

/// setenv(3) must be able to take them.
bool is_variable_name(const std::string& name) {
    return !name.empty() && name.find('=') == name.npos && trimmed(name) == name;
}

void run(std::string_view input) {
    spank::PrologOutput output = spank::parse_prolog(input);
    size_t size = output.text.size();
    for (const auto& [name, value] : output.changes) {
        must(value ? is_variable_name(name) : !name.empty(), "a variable has no name");
        std::string both = name + value.value_or("");
        must(both.find('\n') == both.npos && both.find('\0') == both.npos, "a variable is more than a line");
        size += both.size();
    }
    must(size <= input.size() + 1, "more comes out than went in");
    must(output.text.find('\0') == std::string::npos, "what stands behind the end is shown");
}

const hostile::Registration registration("task_prolog", run);

}  // namespace
