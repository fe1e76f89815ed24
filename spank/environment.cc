#include "spank/environment.hh"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "runtime/base/child.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/definition.hh"
#include "spank/options.hh"
#include "spank/slurm.hh"
#include "spank/step.hh"

namespace berth::spank {

namespace {

constexpr const char* option = "container-environment";
/// Of a file in a home that is mounted first.
constexpr auto definition_limit = std::chrono::seconds(20);
constexpr size_t answer_limit = 1 << 20;

/// All that the program prints.
std::string read_answer(int output, const std::string& name) {
    auto end = std::chrono::steady_clock::now() + definition_limit;
    std::string out;
    for (;;) {
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd entry{output, POLLIN, 0};
        int ready = poll(&entry, 1, left.count() > 0 ? static_cast<int>(left.count()) : 0);
        if (ready < 0 && errno == EINTR) continue;
        char buffer[4096];
        ssize_t size = ready > 0 ? read(output, buffer, sizeof buffer) : -1;
        if (size == 0) return out;
        if (size < 0 || out.size() > answer_limit)
            throw Error(cat("--container-environment: reading ", printable(name, 1024), " took over ",
                            definition_limit.count(),
                            " s; see whether its file system answers"));
        out.append(buffer, static_cast<size_t>(size));
    }
}

std::string definition_of(const std::string& name) {
    try {
        Child program(step().config.helper, {"define", name});
        return read_answer(program.output(), name);
    } catch (const SysError& error) {
        throw Error(cat("--container-environment: reading ", printable(name, 1024), ": ", error.what(),
                        "; install Berth's programs on this machine too"));
    }
}

/// Shows the notes.
plan::Definition read_definition(const std::string& name) {
    std::string answer = definition_of(name);
    std::string_view rest = answer;
    while (rest.starts_with("note ")) {
        size_t end = rest.find('\n');
        slurm_spank_log("berth: %s", std::string(rest.substr(5, end - 5)).c_str());
        rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
    if (rest.starts_with("error ")) throw Error(std::string(trimmed(rest.substr(6))));
    if (!rest.starts_with("definition "))
        throw Error(cat("--container-environment: reading ", printable(name, 1024), ": ", step().config.helper,
                        " gave no answer; install a berth of the plugin's release"));
    return plan::parse_definition(trimmed(rest.substr(rest.find(' '))));
}

/// What sbatch has read for the job around this step.
std::optional<plan::Definition> definition_of_job(const std::string& name) {
    const char* text = std::getenv(plan::definition_variable);
    if (text == nullptr || spank_context() != S_CTX_LOCAL || std::getenv("SLURM_JOB_ID") == nullptr)
        return std::nullopt;
    return plan::definition_in({cat(plan::definition_variable, "=", text)}, name);
}

/// The options that win over the definition; see replace_options(). What did not count in the job does not in its
/// steps.
plan::GivenOptions winners(const plan::GivenOptions& own, const plan::Definition& definition) {
    if (plan::given(own, option) != nullptr) return own;
    plan::GivenOptions out = step().options;
    for (const std::string& name : definition.replaced)
        if (plan::given(own, name) == nullptr) plan::remove_option(out, name);
    return out;
}

bool has_value(const char* name) {
    const std::string* value = plan::given(step().options, name);
    return value != nullptr && !value->empty();
}

void leave_definition(const plan::Definition& definition) {
    setenv(plan::definition_variable, plan::definition_text(definition).c_str(), 1);
    if (plan::given(definition.options, "container-name") != nullptr)
        setenv(plan::definition_named_variable, "1", 1);
    else
        unsetenv(plan::definition_named_variable);
}

}  // namespace

void take_environment_file(const plan::GivenOptions& own) {
    const std::string* given = plan::given(step().options, option);
    if (given == nullptr || given->empty()) return;
    const std::string name = *given;
    std::optional<plan::Definition> of_job = definition_of_job(name);
    plan::Definition definition = of_job ? *of_job : read_definition(name);
    plan::GivenOptions strong = winners(own, definition);
    definition.replaced.clear();
    plan::replace_options(step().options, definition, strong);
    for (const auto& [word, value] : definition.options) plan::add_option_if_new(step().options, word, value);
    if (!has_value("container-image") && !has_value("container-name"))
        throw Error(cat("--container-environment: ", printable(name, 1024),
                        " has no image; write image = \"...\" in it, or give --container-image"));
    bool reads_again = spank_context() == S_CTX_ALLOCATOR && !is_sbatch();
    if (!reads_again) leave_definition(definition);
}

}  // namespace berth::spank
