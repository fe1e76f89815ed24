#include "runtime/request/values.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"

namespace berth::plan {

namespace {

/// Of a job's name, of which Slurm has no limit, before it is looked at.
constexpr size_t longest_value = 1024;
/// What Slurm writes for the %a of a job that is no array's, in names of output files too.
constexpr const char* no_array_task = "4294967294";

struct Sign {
    char letter;
    std::string Signs::*value;
};
constexpr Sign plain_signs[] = {{'j', &Signs::job},        {'A', &Signs::array_job}, {'a', &Signs::array_task},
                                {'u', &Signs::user},       {'x', &Signs::job_name},  {'N', &Signs::node},
                                {'n', &Signs::node_index}};

bool starts_variable(std::string_view rest) {
    if (rest.size() < 2 || rest[0] != '$') return false;
    char next = rest[1];
    return next == '{' || next == '_' || (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
}

bool is_sign(char letter) {
    return letter == '%' || letter == 'J' ||
           std::any_of(std::begin(plain_signs), std::end(plain_signs),
                       [&](const Sign& sign) { return sign.letter == letter; });
}

/// What stands for %LETTER; empty for nothing.
std::string value_of(char letter, const Signs& signs) {
    if (letter == '%') return "%";
    if (letter == 'J') return signs.job.empty() || signs.step.empty() ? "" : cat(signs.job, ".", signs.step);
    for (const Sign& sign : plain_signs)
        if (sign.letter == letter) return signs.*sign.value;
    return {};
}

}  // namespace

void refuse_variables(std::string_view text, size_t start) {
    for (size_t at = start; at < text.size(); ++at)
        if (starts_variable(text.substr(at)))
            throw Error(with_caret("nothing expands a variable here (Slurm leaves #SBATCH lines as they are); write "
                                   "the path out, with ~/ for your home, or give the option to srun, where the shell "
                                   "expands it",
                                   text, at));
}

void refuse_variables_in_image(std::string_view text) {
    constexpr std::string_view scheme = "docker://";
    size_t start = text.starts_with(scheme) ? scheme.size() : 0;
    if (size_t at = text.find('@', start); at != text.npos && at < text.find_first_of("/#", start)) start = at + 1;
    refuse_variables(text, start);
}

void check_signs(std::string_view text, size_t start) {
    for (size_t at = text.find('%', start); at != text.npos; at = text.find('%', at + 2))
        if (at + 1 == text.size() || !is_sign(text[at + 1]))
            throw Error(with_caret("after % comes one of j J A a u x N n, as in names of Slurm's output files; write "
                                   "%% for a percent sign",
                                   text, at));
}

void check_name_signs(std::string_view text, size_t start) {
    if (size_t at = text.find('$', start); at != text.npos)
        throw Error(with_caret("nothing expands a variable here (Slurm leaves #SBATCH lines as they are), and a $ "
                               "cannot be part of a name; write %j for the job's number, %u for the user, or give the "
                               "option to srun, where the shell expands it",
                               text, at));
    check_signs(text, start);
}

Signs signs_in(const std::vector<std::string>& environment) {
    Signs out;
    out.home = value_in(environment, "HOME");
    if (!out.home.starts_with('/')) out.home.clear();
    out.job = value_in(environment, "SLURM_JOB_ID");
    out.step = value_in(environment, "SLURM_STEP_ID");
    out.array_job = value_in(environment, "SLURM_ARRAY_JOB_ID");
    out.array_task = value_in(environment, "SLURM_ARRAY_TASK_ID");
    out.job_name = value_in(environment, "SLURM_JOB_NAME");
    out.node = value_in(environment, "SLURMD_NODENAME");
    out.node_index = value_in(environment, "SLURM_NODEID");
    if (out.job.empty()) return out;
    if (out.array_job.empty()) out.array_job = out.job;
    if (out.array_task.empty()) out.array_task = no_array_task;
    return out;
}

std::string with_signs(std::string_view text, const Signs& signs) {
    check_signs(text);
    std::string out;
    for (size_t at = 0; at < text.size(); ++at) {
        if (text[at] != '%') {
            out += text[at];
            continue;
        }
        char letter = text[++at];
        std::string value = value_of(letter, signs);
        if (value.empty())
            throw Error(cat("'", printable(text), "': %", letter, " stands for nothing here",
                            signs.job.empty() ? ", outside of a job" : ""));
        if (value.find('/') != value.npos || printable(value, longest_value) != value)
            throw Error(cat("'", printable(text), "': %", letter, " is '", printable(value),
                            "', which cannot be part of a name (it has a slash or control characters, or more than ",
                            longest_value, " bytes)"));
        out += value;
    }
    return out;
}

bool is_below_home(std::string_view path) { return path == "~" || path.starts_with("~/"); }

std::string with_home(const std::string& path, const std::string& home) {
    if (!is_below_home(path)) return path;
    if (!home.starts_with('/'))
        throw Error(cat(printable(path, 4096), ": you have no home here (neither HOME nor your account names one); ",
                        "write the whole path"));
    std::string out = cat(home, path.substr(1));
    if (out.size() > path_limit)
        throw Error(cat(printable(path, 4096), ": with the home in front it is longer than ", path_limit, " bytes"));
    return out;
}

std::string other_home_mistake(std::string_view path) {
    return cat(printable(path.substr(0, path.find('/'))),
               " is not looked up: write ~/ for your own home, or the whole path of another one");
}

}  // namespace berth::plan
