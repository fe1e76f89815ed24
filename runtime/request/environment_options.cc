#include "runtime/request/environment_options.hh"

#include <algorithm>

#include "runtime/base/environment.hh"
#include "runtime/base/error.hh"
#include "runtime/base/text.hh"
#include "runtime/request/names.hh"

namespace berth::plan {

namespace {

/// What one variable says; nothing for a "no" to a flag that is off anyway.
std::vector<EnvironmentOption> told_by(const SrunOption& info, const std::string& variable, std::string_view value) {
    EnvironmentOption out{info.name, "", ""};
    try {
        if (info.argument != nullptr) {
            out.value = value;
            check_option(info.name, value);
        } else if (!parse_bool(value, variable)) {
            if (info.opposite == nullptr) return {};
            out.name = info.opposite;
        }
    } catch (const Error& problem) {
        std::string line = problem.what();
        out.problem = line.starts_with(variable) ? line : cat(variable, ": ", line);
    }
    return {out};
}

const char* opposite_of(const std::string& name) {
    const SrunOption* option = srun_option(name);
    return option != nullptr ? option->opposite : nullptr;
}

/// Adds `option` to those found, or finds fault with it.
void join(std::vector<EnvironmentOption>& found, EnvironmentOption option, const std::string& variable) {
    const char* opposite = opposite_of(option.name);
    for (EnvironmentOption& before : found) {
        if (before.name == option.name && before.value == option.value &&
            before.problem.empty() == option.problem.empty())
            return;
        if (before.problem.empty() && (before.name == option.name || (opposite != nullptr && before.name == opposite)))
            option.problem = cat(variable, ": contradicts another variable, which stands for --", before.name,
                                 before.value.empty() ? "" : "=", printable(before.value, 4096));
    }
    found.push_back(std::move(option));
}

}  // namespace

std::string variable_name(const char* prefix, std::string_view option) {
    std::string out = cat(prefix, option);
    for (char& letter : out)
        letter = letter == '-' ? '_' : static_cast<char>(letter >= 'a' && letter <= 'z' ? letter - 'a' + 'A' : letter);
    return out;
}

std::vector<EnvironmentOption> environment_options(const std::vector<std::string>& environment) {
    std::vector<EnvironmentOption> found;
    for (const SrunOption& info : srun_options()) {
        if (std::string_view(info.name).starts_with("no-")) continue;
        for (const char* prefix : {"BERTH_", "PYXIS_"}) {
            std::string variable = variable_name(prefix, info.name);
            const char* value = berth::variable(environment, variable);
            if (value == nullptr || *value == '\0') continue;
            for (EnvironmentOption& option : told_by(info, variable, value))
                join(found, std::move(option), variable);
        }
    }
    return found;
}

void add_environment_options(GivenOptions& options, const std::vector<std::string>& environment) {
    // What was given beats all variables of an option and its opposite; so it is looked at before any of them is added.
    const GivenOptions before = options;
    for (const EnvironmentOption& option : environment_options(environment)) {
        const char* opposite = opposite_of(option.name);
        if (given(before, option.name) != nullptr || (opposite != nullptr && given(before, opposite) != nullptr))
            continue;
        if (!option.problem.empty()) throw Error(option.problem);
        add_option_if_new(options, option.name, option.value);
    }
}

}  // namespace berth::plan
